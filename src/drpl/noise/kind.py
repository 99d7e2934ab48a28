"""What noise is: a function from a data set to a corrupted one, and the rate it promises."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Generator

from drpl.data.dataset import Dataset
from drpl.errors import ConfigError


@dataclass(frozen=True)
class Noise:
    """Corrupts a data set and knows what share of it that should be."""

    corrupt: Callable[[Dataset, Generator], Dataset]
    nominal: Callable[[Dataset], float]

    def __call__(self, dataset: Dataset, generator: Generator) -> Dataset:
        """The same data set with noise, its truth beside it."""
        return self.corrupt(dataset, generator)


def check_rate(rate: float) -> None:
    """Raise for a rate that is not a share."""
    if not 0 <= rate <= 1:
        hint = f"; did you mean {rate / 100:g}?" if 1 < rate <= 100 else ""
        raise ConfigError(f"a noise rate must be between 0 and 1, got {rate:g}{hint}")
