"""Joint optimisation (Tanaka et al., CVPR 2018): weights by SGD, labels by the predictions.

From epoch `begin` on, every sample's target is the mean of its last predictions; two regularisers
keep that from collapsing. A second network is then trained on the final targets.

    L = L_c + prior R_A + entropy R_H
    R_A = -sum_c (1/C) log pbar_c       no class may vanish; for 1/C see `prior`
    R_H = -(1/B) sum_i sum_c p log p    make up your mind
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import Common, EpochCount, Settings
from drpl.methods.cross_entropy import Classify
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, entropy, from_prior, one_hot
from drpl.training.schedule import Schedule
from drpl.training.stage import PredictionHistory, Steps
from drpl.training.tables import release


class Relabelling(Settings):
    """How the first stage replaces labels."""

    begin: EpochCount = Field(gt=0)
    """Targets are first replaced at the END of this epoch."""
    window: EpochCount = Field(default=10, gt=0)
    """Predictions of this many last epochs are averaged."""
    prior: float = 0.8
    """Weight of R_A."""
    entropy: float = 0.4
    """Weight of R_H."""


Prior = Literal["uniform", "estimate"]


class Config(Common):
    """Relabel, then retrain."""

    prior: Prior = "uniform"
    """What R_A pulls the mean prediction to: estimate is the given labels' own shares."""
    relabel: Relabelling
    relabel_schedule: Schedule
    retrain_schedule: Schedule
    threshold: float = 0.5
    """Labels are called wrong where the mixture of the relabelling losses gives noise more."""


class Relabel(PredictionHistory):
    """Train on targets that, from `begin` on, are the network's own recent predictions."""

    targets: Tensor  # [N, C]
    shares: Tensor | None  # [C] of the classes; None: all alike

    def __init__(
        self,
        net: nn.Module,
        labels: Tensor,
        classes: int,
        config: Relabelling,
        prior: Prior = "uniform",
    ) -> None:
        super().__init__(net, len(labels), classes, config.window)
        self.config = config
        shares = torch.bincount(labels, minlength=classes) / len(labels)
        self.register_buffer("shares", shares if prior == "estimate" else None)
        self.register_buffer("targets", one_hot(labels, classes))

    def epoch(self, feed: Feed) -> Steps:
        """One pass; the predictions of its own training forwards become the new targets."""
        c = self.config
        for x, i in feed():
            logits = self.classify(feed, x, i)
            p = logits.softmax(1)
            yield {
                "classify": cross_entropy(logits, self.targets[i]),
                "prior": c.prior * from_prior(p, self.shares),
                "entropy": c.entropy * entropy(p),
            }
        self.remember(feed)
        if feed.epoch >= c.begin:
            for rows, mean, known in self.mean_recent():
                self.targets[rows] = torch.where(known[:, None], mean, self.targets[rows])
                release(self.targets)


def train(run: Run, config: Config) -> Outcome:
    """Relabel all samples, then train a new network on what they became."""
    first = Relabel(run.network(), run.labels, run.classes, config.relabel, config.prior)
    first = run.fit("relabel", first, config.relabel_schedule)
    split = run.judge("relabel", first.net, config.threshold).split
    second = run.fit("retrain", Classify(run.network(), first.targets), config.retrain_schedule)
    return Outcome(second.net, split)
