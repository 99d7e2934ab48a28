"""Pseudo-labels with mixup (Arazo et al., 2020): learning from a split of the samples.

Labelled samples keep their label. The others take the network's own prediction of the last epoch,
a share of them, drawn anew each time, the uniform distribution instead. DRPL does this twice.

    L = l CE(s) + (1 - l) CE(s') + prior R_A + entropy R_H, all on the mixed images
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import Common, Settings
from drpl.detection.split import Split, require_labelled
from drpl.runs.run import Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, entropy, from_prior, mixup, one_hot
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Steps, Terms


class SemiSupervised(Settings):
    """How unlabelled samples are learnt from."""

    alpha: float = Field(default=1.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha)."""
    prior: float = 0.8
    """Weight of R_A."""
    entropy: float = 0.4
    """Weight of R_H."""
    forget: float = Field(default=0.2, ge=0, le=1)
    """Share of unlabelled samples with the uniform target for an epoch, drawn anew each time."""
    warmup: Literal["load", "none"] = "load"
    """load: some epochs on the labelled samples give the first pseudo-labels and weights."""


class FromSplit(Common):
    """What learning from a split takes."""

    ssl: SemiSupervised
    warmup_schedule: Schedule
    final_schedule: Schedule


class MixedBatches(Stage):
    """What warm-up and semi-supervised learning share: the split, the targets, the loss."""

    targets: Tensor  # [N, C]
    labelled: Tensor  # [L] indices
    unlabelled: Tensor  # [U] indices
    shares: Tensor | None  # [C] of the classes, what R_A pulls to; None: all alike

    def __init__(
        self,
        net: nn.Module,
        targets: Tensor,
        clean: Tensor,
        config: SemiSupervised,
        shares: Tensor | None = None,
    ) -> None:
        labelled, unlabelled = clean.nonzero().flatten(), (~clean).nonzero().flatten()
        super().__init__(
            net, shares=shares, targets=targets, labelled=labelled, unlabelled=unlabelled
        )
        self.config = config

    def terms(self, x: Tensor, i: Tensor, feed: Feed, *, record: bool = False) -> Terms:
        """The loss of a mixed batch and its two regularisers."""
        c = self.config
        x, t, main = mixup(x, self.targets[i], c.alpha, feed.rng)
        logits = self.net(x)
        p = logits.softmax(1)
        if record:
            feed.record(i[main], p)
        return {
            "mixup": cross_entropy(logits, t),
            "prior": c.prior * from_prior(p, self.shares),
            "entropy": c.entropy * entropy(p),
        }


class WarmUp(MixedBatches):
    """The labelled samples alone; nothing is relabelled."""

    def epoch(self, feed: Feed) -> Steps:
        """One pass over the labelled samples."""
        for x, i in feed(self.labelled):
            yield self.terms(x, i, feed, record=True)


class PseudoLabel(MixedBatches):
    """Labelled samples keep their label; the others take the network's, smoothed by mixup."""

    def epoch(self, feed: Feed) -> Steps:
        """One pass; plain images are predicted first, then their mixtures are learnt."""
        for x, i in feed():
            with torch.no_grad():  # in training mode: batch norm sees plain and mixed images
                feed.record(i, self.net(x).softmax(1))
            yield self.terms(x, i, feed)
        probs, visited = feed.predictions
        u = self.unlabelled[visited[self.unlabelled]]
        self.targets[u] = forget_some(probs[u], self.config.forget, feed.shared_rng)


def forget_some(predictions: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """Make a share of the rows of [U, C] uniform, in place: against confirming one's errors."""
    count, classes = predictions.shape
    chosen = torch.randperm(count, generator=rng)[: int(share * count)].to(predictions.device)
    return predictions.index_fill_(0, chosen, 1 / classes)


def train_semi_supervised(
    run: Run,
    name: str,
    split: Split,
    config: FromSplit,
    schedule: Schedule,
    shares: Tensor | None = None,
    start: tuple[nn.Module, Tensor] | None = None,
) -> nn.Module:
    """A network learnt from the labels of the clean samples and the images of all.

    `shares` are those of the classes, where they are not taken to be alike. [C] With `start`, a
    trained network and what it predicts for all samples [N, C], it goes on from there.
    """
    advice = "set min_labelled, raise the threshold, or train longer"
    require_labelled(split.clean, advice, stage=split.stage)
    targets = one_hot(run.labels, run.classes)
    unlabelled = (~split.clean).nonzero().flatten()
    draws = run.rng(name, "first targets")
    if start:
        net, guessed = start[0], start[1][unlabelled]
        targets[unlabelled] = forget_some(guessed, config.ssl.forget, draws)
    elif config.ssl.warmup == "load":
        warm = WarmUp(run.network(), targets, split.clean, config.ssl, shares)
        net = run.fit(f"{name}-warmup", warm, config.warmup_schedule).net
        guessed = run.observe(f"{name}-warmup", net).probs[unlabelled]
        targets[unlabelled] = forget_some(guessed, config.ssl.forget, draws)
    else:  # the released code: any class at first
        net = run.network()
        guess = torch.randint(run.classes, (len(unlabelled),), generator=draws)
        targets[unlabelled] = one_hot(guess, run.classes)
    stage = PseudoLabel(net, targets, split.clean, config.ssl, shares)
    return run.fit(name, stage, schedule).net
