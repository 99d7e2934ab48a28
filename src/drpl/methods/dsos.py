"""Dynamic softening of out-of-distribution samples (DSOS, Albert et al., WACV 2022).

Some images on the web are of another class than their label says, others of no class at all. The
collision entropy of the mean of prediction p and label y tells which (`detection/collision.py`):
the former get the network's prediction as their label, the latter a label that is spread evenly.

    y' = one-hot argmax p  where p(other class) > relabel_from, else y
    t  = softmax(y' v / softness),  v = 1 - p(no class)
    L  = CE(mixed t) + entropy R_H

Until epoch `begin` all labels are believed. From then on each epoch ends with a pass over images
that are not mixed, which finds t for the next one; in training mode, so that batch norm, whose
statistics are of mixed images, is tuned to those that are to be predicted.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import EpochCount
from drpl.detection.collision import collision_entropy, tell_kinds
from drpl.distributed import broadcast
from drpl.methods import cross_entropy as baseline
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, entropy, mixup, one_hot
from drpl.training.stage import Stage, Steps
from drpl.training.tables import split_rows


class Config(baseline.Config):
    """The baseline's schedule, and when and how labels are softened."""

    begin: EpochCount = Field(gt=0)
    """Samples are first told apart after this epoch."""
    relabel_from: float = Field(default=0.9, ge=0, le=1)
    """A sample that is more probably of another class than this has its label replaced."""
    softness: float = Field(default=0.05, gt=0)
    """The temperature of the softened labels: the lower, the longer a doubtful label is kept."""
    entropy: float = Field(default=0.4, ge=0)
    """Weight of R_H, which makes predictions decided."""
    alpha: float = Field(default=1.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha); a row's own is the larger."""
    mix_early: bool = True
    """Whether images are mixed until `begin`, too; the authors' are not if most are noisy."""
    early_batch: int = Field(default=1, gt=0)
    """Batches are this many times as large until `begin`."""


class Soften(Stage):
    """Fit targets that soften as the network comes to know which images belong to no class."""

    labels: Tensor  # [N] as given
    targets: Tensor  # [N, C]

    def __init__(self, net: nn.Module, labels: Tensor, classes: int, config: Config) -> None:
        super().__init__(net, labels=labels.clone(), targets=one_hot(labels, classes))
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """One pass; then, from `begin` on, another one that finds targets for the next."""
        c, early = self.config, feed.epoch <= self.config.begin
        looks = feed.epoch >= c.begin
        for x, i in feed(batch_size=feed.batch_size * (c.early_batch if early else 1)):
            t = self.targets[i]
            if c.mix_early or not early:
                x, t, _ = mixup(x, t, c.alpha, feed.rng, mostly_own=True)
            logits = self.net(x) if looks else self.classify(feed, x, i)
            yield {
                "classify": cross_entropy(logits, t),
                "entropy": c.entropy * entropy(logits.softmax(1)),
            }
        if looks:
            with torch.no_grad():
                for x, i in feed(views=0, plain=True):
                    self.classify(feed, x, i)
            self.retarget(*feed.predictions)

    def retarget(self, probs: Tensor, visited: Tensor) -> None:
        """New targets for all samples that were visited."""
        c, seen = self.config, visited.nonzero().flatten()
        entropies = torch.zeros(len(probs), dtype=torch.float64, device=probs.device)
        for rows in split_rows(len(probs), probs):
            entropies[rows] = collision_entropy(probs[rows], self.labels[rows])
        # One process decides, for the last digits of a mixture may differ between them.
        other, outside = (broadcast(t) for t in tell_kinds(entropies[seen]))
        for part in torch.arange(len(seen), device=seen.device).split(2**16):
            i = seen[part]
            given, guess = self.labels[i], probs[i].argmax(1)
            label = torch.where(other[part] > c.relabel_from, guess, given)
            belief = (1 - outside[part]).to(self.targets)
            self.targets[i] = soften(one_hot(label, probs.shape[1]), belief, c.softness)


def soften(targets: Tensor, belief: Tensor, softness: float) -> Tensor:
    """softmax(t v / softness): a label that is believed, v = 1, stays; with v = 0 it is spread."""
    return (targets * belief[:, None] / softness).softmax(1)


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss."""
    stage = Soften(run.network(), run.labels, run.classes, config)
    return baseline.fit_and_judge(run, stage, config)
