"""ELR+ (Liu et al., NeurIPS 2020): early learning by two networks, taught by each other's average.

Each network is held to early predictions as in ELR, but they are those of the OTHER network's
averaged weights for the plain image, while the network itself learns from mixed images. Errors that
a network makes are then not its own targets. a is the teacher's decay, s the partner of a row.

    t <- beta t + (1 - beta) p_teacher(x)             first; zeros in the beginning, no gradient
    q = l t + (1 - l) t_s     y^ = l y + (1 - l) y_s     p = p(l x + (1 - l) x_s)       l >= 1/2
    L = CE(p, y^) + r lambda (1/B) sum_i log(1 - <q_i, p~_i>)
    teacher <- a teacher + (1 - a) network            after every step

With many classes y^ is first brought to what the teacher holds possible: y^ q / sum_c y^_c q_c.
"""

from math import exp
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import IN_EPOCHS
from drpl.methods import cross_entropy as baseline
from drpl.methods import elr
from drpl.networks.ensemble import Ensemble
from drpl.runs.run import Outcome, Run
from drpl.training.ema import WeightAverage
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, draw_mix, one_hot
from drpl.training.stage import Stage, Steps
from drpl.training.tables import TableUpdate, make_table

TINY = 1e-8  # no division by zero where the teacher excludes both labels


class Config(elr.Config):
    """ELR's, and how networks are averaged and images mixed."""

    alpha: float = Field(default=1.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha); a row's own is the larger."""
    reweigh: bool = False
    """Whether labels are multiplied by the teacher's targets first: for 100 classes."""
    ramp: Annotated[float, IN_EPOCHS] = Field(default=0.0, ge=0)
    """Epochs in which the regulariser rises to its weight; 0: it has it from the start."""
    decay: float = Field(default=0.997, ge=0, lt=1)
    """How much of the teacher's weights is kept in a step, in the end."""
    decay_ramp: Annotated[float, IN_EPOCHS] = Field(default=0.0, ge=0)
    """Epochs in which the decay rises to that: until then the teacher is the network of late."""


class TaughtPair(Stage):
    """Two networks and their averages under one optimiser, which moves the networks alone."""

    net: Ensemble
    labels: Tensor  # [N] as given
    early: Tensor  # [2, N, C] t of each network

    def __init__(
        self, nets: tuple[nn.Module, nn.Module], labels: Tensor, classes: int, config: Config
    ) -> None:
        early = make_table(2, len(labels), classes)
        super().__init__(Ensemble(*nets), labels=labels.clone(), early=early)
        self.averages = nn.ModuleList(WeightAverage(net) for net in nets)
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """A pass of the first network, then one of the second, whose teacher has moved on."""
        for k, net in enumerate(self.net.members):
            yield from self.teach(net, self.averages[k], self.averages[1 - k], self.early[k], feed)

    def teach(
        self, net: nn.Module, average: nn.Module, teacher: nn.Module, early: Tensor, feed: Feed
    ) -> Steps:
        """One network's pass; each sample's target moves once, before its loss."""
        c, steps = self.config, len(self.labels) // feed.batch_size + 1
        found = TableUpdate(*early.shape, device=early.device)
        for step, (x, i) in enumerate(feed()):
            done = feed.epoch - 1 + step / steps
            weight = c.regulariser * rise(done, c.ramp)
            guess = teacher(x).float().softmax(1)  # in training mode, normalised by the batch
            feed.record(i, guess)
            found.put(i, guess)
            mix = draw_mix(x, c.alpha, feed.rng, mostly_own=True)
            q = mix.blend(update(early[i], guess, c.beta))
            y = mix.blend(one_hot(self.labels[i], early.shape[1]))
            logits = net(mix.blend(x))
            yield {
                "classify": cross_entropy(logits, reweigh(y, q) if c.reweigh else y),
                "early": weight * elr.early_learning(logits.softmax(1), q),
            }
            average.follow(net, c.decay * rise(done + 1 / steps, c.decay_ramp))  # type: ignore[operator]
        for rows, guess, visited in found.gather():
            new = update(early[rows], guess, c.beta)
            early[rows] = torch.where(visited, new, early[rows])


def update(t: Tensor, guess: Tensor, beta: float) -> Tensor:
    """The targets after another guess of the teacher. [B, C]"""
    return beta * t + (1 - beta) * guess


def rise(epochs: float, ramp: float) -> float:
    """From exp(-5) to 1 in this many epochs: exp(-5 (1 - epochs / ramp)^2)."""
    return exp(-5 * (1 - min(epochs / ramp, 1)) ** 2) if ramp else 1.0


def reweigh(y: Tensor, q: Tensor) -> Tensor:
    """Labels, as far as the targets hold them possible; each row sums to 1. [B, C]"""
    both = y * (q + TINY)
    return both / both.sum(1, keepdim=True)


def train(run: Run, config: Config) -> Outcome:
    """Train both; judge labels by the final loss of the two together."""
    nets = run.network(), run.network()
    stage = TaughtPair(nets, run.labels, run.classes, config)
    return baseline.fit_and_judge(run, stage, config)
