"""DISC (Li et al., CVPR 2023): each sample has a threshold of its own, for weak and strong views.

How sure a network is of a sample, averaged over epochs, is the sample's threshold. A label that
beats it in both views is clean, in one of them hard; where it beats none, but both views are far
surer of another class, that class replaces it. P_w, P_s are the last epoch's predictions.

    clean      P_w[y] > tau_w  and  P_s[y] > tau_s                  hard: one of the two
    purified   max_c (P_w + P_s)/2 > min((tau_w + tau_s)/2 + 0.5, 0.99), neither clean nor hard
    then       tau <- m tau + (1 - m) max_c P                       for each view; 1/N first
    L = CE of the clean + hard_weight GCE of the hard + CE on mixed images of all three

The first two are sums over both views, divided by the batch; the last is a mean for each view.
Until `begin` all labels are believed: L = CE(weak) + CE(strong).
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from drpl.config.settings import EpochCount, StrongView
from drpl.methods import cross_entropy as baseline
from drpl.methods.gce import generalised_loss
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, mixup, one_hot
from drpl.training.stage import Stage, Steps
from drpl.training.tables import TableUpdate

SURER = 0.5  # how far above its threshold a prediction replaces a label
SUREST = 0.99  # the highest such bound


class Config(baseline.Config):
    """The baseline's schedule, the strong view, and how thresholds move."""

    strong: StrongView = StrongView()
    begin: EpochCount = Field(gt=0)
    """Until after this epoch all labels are believed."""
    momentum: float = Field(default=0.99, ge=0, lt=1)
    """m: how much of a threshold is kept from one epoch to the next."""
    hard_weight: float = Field(default=1.0, ge=0)
    """The weight of samples whose label beats one threshold only."""
    q: float = Field(default=0.7, gt=0, le=1)
    """Of the generalised cross-entropy on these."""
    alpha: float = Field(default=5.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha); a row's own is the larger."""


class Selection(Stage):
    """Fit the labels that beat their thresholds, and what replaces others."""

    labels: Tensor  # [N] as given
    thresholds: Tensor  # [2, N] tau of the weak and of the strong view
    clean: Tensor  # [N] bool
    hard: Tensor  # [N] bool
    taught: Tensor  # [N] the class of who is clean, hard or purified; -1 of the others
    chosen: Tensor  # [] bool: these are what is taught, and no longer all labels

    def __init__(self, net: nn.Module, labels: Tensor, classes: int, config: Config) -> None:
        nobody = torch.zeros(len(labels), dtype=torch.bool)
        super().__init__(
            net,
            labels=labels.clone(),
            thresholds=torch.full((2, len(labels)), 1 / len(labels)),
            clean=nobody,
            hard=nobody.clone(),
            taught=labels.clone(),
            chosen=torch.tensor(False),
        )
        self.classes, self.config = classes, config

    def list_taught(self) -> Tensor:
        """The label of each sample, another where it is purified; -1 where it is left out.

        The warm-up chooses samples after each of its epochs, too, and still teaches all labels.
        """
        return torch.where(self.chosen, self.taught, self.labels)

    def epoch(self, feed: Feed) -> Steps:
        """One pass; then samples are chosen for the next one."""
        found = TableUpdate(len(self.labels), 2 * self.classes, device=self.labels.device)
        for x, s, i in feed(strong=1):
            weak, strong = self.net(torch.cat([x, s])).chunk(2)
            feed.record(i, weak.softmax(1))
            found.put(i, torch.cat([one.float().softmax(1) for one in (weak, strong)], 1))
            if feed.epoch <= self.config.begin:
                y = self.labels[i]
                yield {
                    "weak": functional.cross_entropy(weak, y),
                    "strong": functional.cross_entropy(strong, y),
                }
            else:
                yield self.weigh(weak, strong, i) | self.mix(x, s, i, feed)
        for rows, probs, visited in found.gather():
            weak, strong = probs.chunk(2, 1)
            self.select(rows, weak, strong, visited[:, 0])
        self.chosen.fill_(feed.epoch >= self.config.begin)

    def weigh(self, weak: Tensor, strong: Tensor, i: Tensor) -> dict[str, Tensor]:
        """The terms of clean and of hard samples, over both views."""
        c, y, terms = self.config, self.labels[i], {}
        losses = [functional.cross_entropy(one, y, reduction="none") for one in (weak, strong)]
        robust = [generalised_loss(-loss, c.q) for loss in losses]
        terms["clean"] = (self.clean[i] * torch.stack(losses).sum(0)).mean()
        terms["hard"] = c.hard_weight * (self.hard[i] * torch.stack(robust).sum(0)).mean()
        return terms

    def mix(self, x: Tensor, s: Tensor, i: Tensor, feed: Feed) -> dict[str, Tensor]:
        """The terms of mixed images, for each view; none where there is nobody to mix with."""
        chosen, terms = self.taught[i] >= 0, {}
        if int(chosen.sum()) < 2:
            return {}
        y = one_hot(self.taught[i][chosen], self.classes)
        for name, view in (("mixed weak", x), ("mixed strong", s)):
            mixed, t, _ = mixup(view[chosen], y, self.config.alpha, feed.rng, mostly_own=True)
            terms[name] = cross_entropy(self.net(mixed), t)
        return terms

    def select(self, rows: slice, weak: Tensor, strong: Tensor, visited: Tensor) -> None:
        """Who is clean, hard or purified by an epoch's predictions [n, C]; then thresholds move."""
        y, old = self.labels[rows, None], self.thresholds[:, rows]
        beats = torch.stack([p.gather(1, y)[:, 0] for p in (weak, strong)]) > old
        surest, other = ((weak + strong) / 2).max(1)
        purified = ~beats.any(0) & (surest > (old.mean(0) + SURER).clamp(max=SUREST))
        taught = torch.where(beats.any(0), y[:, 0], torch.where(purified, other, -1))
        sure = torch.stack([p.amax(1) for p in (weak, strong)])
        m = self.config.momentum
        for table, new in (
            (self.clean, beats.all(0)),
            (self.hard, beats[0] ^ beats[1]),
            (self.taught, taught),
        ):
            table[rows] = torch.where(visited, new, table[rows])
        self.thresholds[:, rows] = torch.where(visited, m * old + (1 - m) * sure, old)


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss."""
    stage = Selection(run.network(), run.labels, run.classes, config)
    return baseline.fit_and_judge(run, stage, config)
