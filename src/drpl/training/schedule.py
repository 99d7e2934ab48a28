"""How long, how fast, in what batches: the SGD of every method."""

from collections.abc import Iterable

from pydantic import Field, field_validator
from torch import nn, optim

from drpl.config.settings import Settings


class Schedule(Settings):
    """Epochs and learning rates of one stage. Epochs count from 1."""

    epochs: int = Field(gt=0, le=10**6)
    """How many times every sample is seen."""
    lr: tuple[tuple[int, float], ...] = Field(min_length=1)
    """[epoch, rate] pairs: from the START of this epoch on, this learning rate.

    A paper's milestone M divides the rate from epoch M itself, so it is written [M, rate].
    """
    batch_size: int = Field(default=128, gt=1, le=2**20)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-4, ge=0)

    @field_validator("lr")
    @classmethod
    def _check_order(cls, lr: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
        epochs = [epoch for epoch, _ in lr]
        if epochs[0] != 1 or epochs != sorted(set(epochs)):
            raise ValueError("must begin with epoch 1 and have rising epochs")
        if any(rate <= 0 for _, rate in lr):
            raise ValueError("must have rates above 0")
        return lr

    def lr_at(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        return [rate for start, rate in self.lr if start <= epoch][-1]

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> optim.SGD:
        """A fresh optimiser; weight decay on all parameters, as in the released code."""
        return optim.SGD(
            parameters, self.lr_at(1), momentum=self.momentum, weight_decay=self.weight_decay
        )
