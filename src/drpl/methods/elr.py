"""Early-learning regularisation (ELR, Liu et al., NeurIPS 2020): hold on to what was learnt first.

A network learns from right labels before it memorises wrong ones. Each sample's target t, a running
mean of its own predictions, remembers that time; a regulariser draws the prediction to it, so that
labels which contradict it lose their pull. p is the softmax, p~ the same within [1e-4, 1 - 1e-4].

    t <- beta t + (1 - beta) p~ / sum_c p~_c          first; zeros in the beginning, no gradient
    L = CE(p, y) + (lambda / B) sum_i log(1 - sum_c t_ic p~_ic)
"""

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from drpl.methods import cross_entropy as baseline
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.stage import Stage, Steps
from drpl.training.tables import make_table, split_rows

MARGIN = 1e-4  # how near to 0 and 1 a probability comes, so that the logarithm stays finite


class Config(baseline.Config):
    """The baseline's schedule, and how strongly and how long early predictions hold."""

    regulariser: float = Field(ge=0)
    """lambda, the weight of the regulariser: more for more classes and for more noise."""
    beta: float = Field(ge=0, lt=1)
    """How much of a target is kept from one epoch to the next."""


class EarlyLearning(Stage):
    """Fit the given labels, held back by the running mean of one's own predictions."""

    labels: Tensor  # [N] as given
    targets: Tensor  # [N, C] t; a row sums to 1 - beta ** visits

    def __init__(self, net: nn.Module, labels: Tensor, classes: int, config: Config) -> None:
        super().__init__(net, labels=labels.clone(), targets=make_table(len(labels), classes))
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """One pass; each sample's target moves once, before its loss."""
        c = self.config
        for x, i in feed():
            logits = self.classify(feed, x, i)
            p = logits.softmax(1)
            t = update(self.targets[i], p.detach(), c.beta)
            yield {
                "classify": functional.cross_entropy(logits, self.labels[i]),
                "early": c.regulariser * early_learning(p, t),
            }
        # No sample comes twice in an epoch, so its row may wait until all processes' are there.
        probs, visited = feed.predictions
        for rows in split_rows(len(probs), self.targets, probs):
            new = update(self.targets[rows], probs[rows], c.beta)
            self.targets[rows] = torch.where(visited[rows, None], new, self.targets[rows])


def update(t: Tensor, p: Tensor, beta: float) -> Tensor:
    """The targets after another prediction. [B, C]"""
    p = p.clamp(MARGIN, 1 - MARGIN)
    return beta * t + (1 - beta) * p / p.sum(1, keepdim=True)


def early_learning(p: Tensor, t: Tensor) -> Tensor:
    """(1/B) sum_i log(1 - <t_i, p~_i>): never above 0, and low where a prediction is its target."""
    return (1 - (t * p.clamp(MARGIN, 1 - MARGIN)).sum(1)).log().mean()


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss. The targets are evidence too."""
    stage = EarlyLearning(run.network(), run.labels, run.classes, config)
    net = run.fit("train", stage, config.schedule).net
    run.keep(replace(run.observe("train", net), targets=stage.targets.cpu()))
    return run.judge("train", net, config.threshold)
