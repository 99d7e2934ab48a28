"""Forward correction (Patrini et al., CVPR 2017): let the loss know how labels go wrong.

T[c, j] is the probability that an image of true class c is given the label j. The network
predicts the true class; T turns that into a prediction of the given label, which is fitted.

    L = -(1/B) sum_i log sum_c p_ic T[c, y_i]

Up to epoch `begin` T is the identity: plain cross-entropy. Then T[c] is what that network
predicts for the anchor of c, an image that is surely of class c; it stays fixed.
"""

from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import EpochCount
from drpl.errors import ConfigError
from drpl.methods import cross_entropy as baseline
from drpl.noise.transition import check_matrix, read_matrix
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.stage import Stage, Steps


class Config(baseline.Config):
    """The baseline's schedule, and where T comes from."""

    begin: EpochCount = Field(default=50, ge=0)
    """This many epochs of plain cross-entropy come first."""
    outliers: float = Field(default=0.03, ge=0, lt=1)
    """Share of the highest predictions of a class that cannot be its anchor."""
    matrix: str | None = None
    """A file with T (.csv, .npy or .npz) to use instead of an estimate."""


class Forward(Stage):
    """Fit the given labels through T."""

    labels: Tensor  # [N]
    transition: Tensor  # [C, C] T

    def __init__(
        self,
        net: nn.Module,
        labels: Tensor,
        classes: int,
        begin: int,
        *,
        known: Tensor | None = None,
        outliers: float = 0.0,
    ) -> None:
        super().__init__(net, labels=labels, transition=torch.eye(classes))
        self.begin, self.known, self.outliers = begin, known, outliers

    def epoch(self, feed: Feed) -> Steps:
        """One pass."""
        if feed.epoch == self.begin + 1:
            known = self.known
            if known is None:
                known = estimate_from_anchors(feed.predict_all(self.net).exp(), self.outliers)
            self.transition.copy_(known)
        for x, i in feed():
            logits = self.classify(feed, x, i)
            yield {"forward": forward_loss(logits, self.labels[i], self.transition)}


def forward_loss(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """-(1/B) sum_i log sum_c p_ic T[c, y_i], in logarithms, so that no p becomes 0."""
    ways = transition.clamp(min=1e-30).log()[:, labels].T  # [B, C] log T[c, y_i]
    return -(logits.log_softmax(1) + ways).logsumexp(1).mean()


def estimate_from_anchors(p: Tensor, outliers: float) -> Tensor:
    """T from the predictions [N, C] of all samples: row c is that of the anchor of c.

    The anchor has the largest p[c] below the highest `outliers` of that column. With so many
    classes that these are more than a class, it is simply the largest.
    """
    scores = p
    if 0 < outliers * p.shape[1] < 1:
        ceiling = torch.stack([column.quantile(1 - outliers) for column in p.T])
        scores = torch.where(p < ceiling, p, -1)  # a new table: p itself becomes the rows of T
    rows = p[scores.argmax(0)]
    return rows / rows.sum(1, keepdim=True)


def read_transition(path: str, classes: int) -> Tensor:
    """T as a user has it."""
    table = check_matrix(torch.from_numpy(read_matrix(Path(path))))
    if len(table) != classes:
        raise ConfigError(
            f"the transition matrix in {path} is for {len(table)} classes, the data have {classes}"
        )
    return table


def train(run: Run, config: Config) -> Outcome:
    """Train, from `begin` on through T; judge labels by the final loss of p itself."""
    known = read_transition(config.matrix, run.classes) if config.matrix else None
    begin, outliers = config.begin, config.outliers
    stage = Forward(run.network(), run.labels, run.classes, begin, known=known, outliers=outliers)
    return baseline.fit_and_judge(run, stage, config)
