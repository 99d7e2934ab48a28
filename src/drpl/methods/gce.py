"""Generalised cross-entropy (Zhang and Sabuncu, NeurIPS 2018): between CE and absolute error.

    L_q(p) = (1 - p^q) / q          q -> 0 is cross-entropy, q = 1 the mean absolute error
    L = (1/B) sum_i L_q(p_i[y_i])

Truncated, samples whose label is improbable no longer count, and those that do count pay only
what they lose above the bound k:

    L = (1/B) sum_i w_i [L_q(p_i[y_i]) - L_q(k)],   w_i = 1 where p_i[y_i] > k
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import EpochCount
from drpl.methods.cross_entropy import Continued, fit_and_judge, pretrain
from drpl.runs.run import Outcome, Run
from drpl.training.evaluate import label_losses
from drpl.training.feed import Feed
from drpl.training.stage import Stage, Steps


class Config(Continued):
    """The robust loss, after a start with cross-entropy."""

    q: float = Field(default=0.7, gt=0, le=1)
    truncate: bool = False
    """Leave out the samples whose given label is improbable."""
    k: float = Field(default=0.5, gt=0, lt=1)
    """Truncated: a label no more probable than this does not count."""
    prune_from: EpochCount = Field(default=40, gt=0)
    """Truncated: the epoch at whose start samples are first left out."""
    prune_every: EpochCount = Field(default=10, gt=0)
    """Truncated: epochs after which it is decided anew."""


class Generalised(Stage):
    """Fit the given labels, the less the more improbable they are."""

    labels: Tensor  # [N]
    weights: Tensor  # [N] w, 0 or 1

    def __init__(self, net: nn.Module, labels: Tensor, config: Config) -> None:
        super().__init__(net, labels=labels, weights=torch.ones(len(labels)))
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """One pass, perhaps after a look at who still counts."""
        c = self.config
        since = feed.epoch - c.prune_from
        if c.truncate and since >= 0 and since % c.prune_every == 0:
            # By the network of now. The released code takes the one with the best test accuracy
            # so far: a leak of the test set into the choice of training samples.
            self.weights.copy_(probable(feed.predict_all(self.net), self.labels, c.k))
        bound = generalised_loss(torch.tensor(c.k).log(), c.q) if c.truncate else 0
        for x, i in feed():
            log_p = -label_losses(self.classify(feed, x, i).log_softmax(1), self.labels[i])
            yield {"gce": (self.weights[i] * (generalised_loss(log_p, c.q) - bound)).mean()}


def generalised_loss(log_p: Tensor, q: float) -> Tensor:
    """L_q = (1 - p^q) / q from log p: the gradient of p^q itself is infinite at 0."""
    return -torch.expm1(q * log_p) / q


def probable(log_probs: Tensor, labels: Tensor, k: float) -> Tensor:
    """Whose given label has a probability above k. [N] bool"""
    return (-label_losses(log_probs, labels)).exp() > k


def train(run: Run, config: Config) -> Outcome:
    """Start with cross-entropy, go on with the robust loss; judge labels by the final loss."""
    stage = Generalised(pretrain(run, config), run.labels, config)
    return fit_and_judge(run, stage, config)
