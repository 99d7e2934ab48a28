"""How long, how fast, in what batches: the SGD of every method."""

import math
from collections.abc import Iterable
from typing import Self

from pydantic import Field, field_validator, model_validator
from torch import nn, optim

from drpl.config.settings import Settings

RISE = 0.25  # share of a cycle in which the rate rises
LOWEST = 0.1  # of the highest rate, that a cycle begins with


class Schedule(Settings):
    """Epochs and learning rates of one stage. Epochs count from 1."""

    epochs: int = Field(gt=0, le=10**6)
    """How many times every sample is seen."""
    effort: float = Field(default=1.0, gt=0, le=100)
    """Share of the preset's epochs that is trained; settings in epochs follow it. Numbers of one's
    own stay as they are."""
    lr: tuple[tuple[int, float], ...] = Field(min_length=1)
    """[epoch, rate] pairs: from the START of this epoch on, this learning rate.

    A paper's milestone M divides the rate from epoch M itself, so it is written [M, rate].
    """
    cosine: tuple[int, float] | None = None
    """[epoch, rate]: after this epoch the learning rate falls along half a cosine, and would reach
    this rate in the epoch after the last. Without it rates are steps only."""
    batch_size: int = Field(default=128, gt=1, le=2**20)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = False
    """Take the gradient's step after that of the momentum."""
    weight_decay: float = Field(default=1e-4, ge=0)
    cycle: bool = False
    """Change the rate with every step, in one cycle: up to the highest of `lr` in the first quarter
    of the epochs, then down to zero on a straight line. When the rates of `lr` begin is of no
    account then, nor is `cosine`."""

    @field_validator("lr")
    @classmethod
    def _check_order(cls, lr: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
        epochs = [epoch for epoch, _ in lr]
        if epochs[0] != 1 or epochs != sorted(set(epochs)):
            raise ValueError("must begin with epoch 1 and have rising epochs")
        if any(rate <= 0 for _, rate in lr):
            raise ValueError("must have rates above 0")
        return lr

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov wants a momentum above 0")
        return self

    def lr_at(self, epoch: int, progress: float = 0.0) -> float:
        """The learning rate in an epoch of which a share has passed, from 0 to below 1."""
        if self.cycle:
            return self._follow_cycle((epoch - 1 + progress) / self.epochs)
        rate = [rate for start, rate in self.lr if start <= epoch][-1]
        if self.cosine is None or epoch <= self.cosine[0]:
            return rate
        after, least = self.cosine
        share = (epoch - after) / (self.epochs - after + 1)
        return least + (rate - least) * (1 + math.cos(math.pi * share)) / 2

    def _follow_cycle(self, passed: float) -> float:
        """The rate when a share of all epochs has passed."""
        highest = max(rate for _, rate in self.lr)
        if passed < RISE:
            return highest * (LOWEST + (1 - LOWEST) * passed / RISE)
        return highest * (1 - passed) / (1 - RISE)

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.SGD:
        """A fresh optimiser; weight decay on all parameters, as in the released code."""
        return optim.SGD(
            parameters,
            self.lr_at(1),
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )
