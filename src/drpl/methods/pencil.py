"""PENCIL (Yi and Wu, CVPR 2019): labels are parameters too, learnt by their own gradient.

Each sample has label logits y~, at first 10 times its given label, with y^d = softmax(y~). First
the network learns from the given labels, then network and labels learn from each other, then the
network learns from the labels as they became. f is the network's softmax.

    L_c = (1/C) KL(f || y^d)        L_o = -log y^d[given]        L_e = -(1/C) sum_c f_c log f_c
    L = L_c + compatible L_o + entropy L_e         y~ <- y~ - label_rate dL/dy~
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from drpl.config.settings import EpochCount
from drpl.distributed import all_reduce_sum
from drpl.methods import cross_entropy as baseline
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import entropy, one_hot
from drpl.training.stage import Stage, Steps


class Config(baseline.Config):
    """The baseline's schedule, and when and how labels are learnt."""

    learn_from: EpochCount = Field(gt=0)
    """The first epoch in which labels are learnt; before, the given ones are believed."""
    learn_until: EpochCount = Field(gt=0)
    """The last epoch in which labels are learnt; after, they are fixed and only L_c remains."""
    label_rate: float = Field(gt=0)
    """Learning rate of the labels; large, as the gradient is that of the batch's mean."""
    compatible: float = 0.1
    """Weight of L_o, which holds the labels near the given ones."""
    entropy: float = 0.4
    """Weight of L_e."""
    certainty: float = Field(default=10.0, gt=0)
    """The logit of the given label at first."""
    double_softmax: bool = False
    """The released code: L_o takes the softmax of y^d once more."""


class Pencil(Stage):
    """Three phases under one optimiser."""

    labels: Tensor  # [N] as given
    y: Tensor  # [N, C] label logits

    def __init__(self, net: nn.Module, labels: Tensor, classes: int, config: Config) -> None:
        super().__init__(net, labels=labels.clone(), y=config.certainty * one_hot(labels, classes))
        self.config = config

    def list_taught(self) -> Tensor:
        """The most probable class of each sample's label logits. [N]"""
        return self.y.argmax(1)

    def epoch(self, feed: Feed) -> Steps:
        """One pass; in the second phase every label moves once."""
        if self.config.learn_from <= feed.epoch <= self.config.learn_until:
            yield from self.learn_labels(feed)
            return
        for x, i in feed():
            logits = self.classify(feed, x, i)
            if feed.epoch < self.config.learn_from:
                yield {"given": functional.cross_entropy(logits, self.labels[i])}
            else:
                yield {"classify": classification_loss(logits, self.y[i])}

    def learn_labels(self, feed: Feed) -> Steps:
        """Network and labels together."""
        c, moves = self.config, torch.zeros_like(self.y)
        for x, i in feed():
            y, logits = self.y[i].requires_grad_(), self.classify(feed, x, i)
            p, classes = logits.softmax(1), logits.shape[1]
            yield {
                "classify": classification_loss(logits, y),
                "compatible": c.compatible
                * compatibility_loss(y, self.labels[i], c.double_softmax),
                "entropy": c.entropy * entropy(p) / classes,
            }
            # The loop has divided the loss by the processes: this is the whole batch's gradient.
            moves[i] = -c.label_rate * y.grad  # type: ignore[operator]
        self.y += all_reduce_sum(moves)  # of all processes; who was in no batch stays


def classification_loss(logits: Tensor, y: Tensor) -> Tensor:
    """L_c = (1/BC) sum_i sum_c f_ic (log f_ic - log y^d_ic): the network comes first."""
    log_f = logits.log_softmax(1)
    return (log_f.exp() * (log_f - y.log_softmax(1))).mean()


def compatibility_loss(y: Tensor, labels: Tensor, double_softmax: bool = False) -> Tensor:
    """L_o = -(1/B) sum_i log y^d_i[given]."""
    return functional.cross_entropy(y.softmax(1) if double_softmax else y, labels)


def train(run: Run, config: Config) -> Outcome:
    """Learn from the given labels, with the labels, from the learnt labels."""
    stage = Pencil(run.network(), run.labels, run.classes, config)
    return baseline.fit_and_judge(run, stage, config)
