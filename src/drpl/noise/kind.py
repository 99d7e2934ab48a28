"""What noise is: parts, each with a share of every class and a way to corrupt it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from drpl.data.dataset import Dataset, Truth
from drpl.data.outside import replaced
from drpl.errors import ConfigError
from drpl.noise.confusion import Confusion
from drpl.noise.quota import Quota, allotted

SCHEMES = ("paper", "official")


@dataclass(frozen=True)
class NoiseContext:
    """What noise may need besides the data set itself."""

    outside: Dataset | None = None  # images of other classes
    confusion: Confusion | None = None  # which classes look alike


@dataclass(frozen=True)
class Change:
    """What a part of the noise does to some samples."""

    rows: Tensor  # [M] int64
    labels: Tensor  # [M] int64, what they are labelled now
    images: Tensor | None = None  # [M] int64, rows of the outside that take the images' place


@dataclass(frozen=True)
class Part:
    """One kind of noise at one rate."""

    draw: Callable[[Dataset, Quota, Generator], Change]
    rates: Callable[[Dataset], Tensor]  # [C] float64, the share of each class it corrupts
    outside: Dataset | None = None
    scheme: str = "paper"

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            known = ", ".join(SCHEMES)
            raise ConfigError(f"unknown noise scheme {self.scheme!r}; known are {known}")

    def nominal(self, dataset: Dataset) -> float:
        """The share of all samples it promises to corrupt."""
        return float(self.rates(dataset)[dataset.labels].mean())


@dataclass(frozen=True)
class Noise:
    """Parts that corrupt different samples of a data set, and the share they promise."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if len(self.parts) > 1 and any(part.scheme == "official" for part in self.parts):
            raise ConfigError(
                "scheme=official is the authors' draw for one kind of noise alone; "
                "leave it out of a sum"
            )
        if len({id(part.outside) for part in self.parts if part.outside}) > 1:
            raise ConfigError("the parts of a noise take their images from one outside set")

    def __add__(self, other: "Noise") -> "Noise":
        return Noise(self.parts + other.parts)

    def __call__(self, dataset: Dataset, generator: Generator) -> Dataset:
        """The same data set with noise, its truth beside it."""
        return self.applied(dataset, self.changes(dataset, generator))

    def nominal(self, dataset: Dataset) -> float:
        """The share of all samples that is to be corrupted."""
        return sum(part.nominal(dataset) for part in self.parts)

    def changes(self, dataset: Dataset, generator: Generator) -> list[Change]:
        """What each part does; no two touch the same sample."""
        counts = allotted(torch.stack([part.rates(dataset) for part in self.parts]), dataset)
        free = torch.ones(len(dataset), dtype=torch.bool)
        spent = torch.empty(0, dtype=torch.int64)
        changes = []
        for part, count in zip(self.parts, counts, strict=True):
            change = part.draw(dataset, Quota(free.clone(), count, spent), generator)
            free[change.rows] = False
            if change.images is not None:
                spent = torch.cat([spent, change.images])
            changes.append(change)
        return changes

    def applied(self, dataset: Dataset, changes: Sequence[Change]) -> Dataset:
        """The data set after all changes."""
        labels, rows = dataset.labels.clone(), torch.arange(len(dataset))
        for change in changes:
            labels[change.rows] = change.labels
            if change.images is not None:
                rows[change.rows] = -1 - change.images
        truth = dataset.truth or Truth(dataset.labels, torch.ones(len(labels), dtype=torch.bool))
        noisy = replace(dataset, labels=labels, truth=truth)
        outside = next((part.outside for part in self.parts if part.outside), None)
        return noisy if outside is None else with_images(noisy, truth, outside, rows)


def with_images(dataset: Dataset, truth: Truth, outside: Dataset, rows: Tensor) -> Dataset:
    """The data set showing row -1 - r of the outside where `rows` has r < 0."""
    foreign = rows < 0
    before = torch.full_like(rows, -1) if truth.source is None else truth.source
    source = torch.where(foreign, outside.labels[(-1 - rows).clamp(min=0)], before)
    paths = dataset.paths
    if paths:
        others = outside.paths or ("",) * len(outside)  # their files, or no file at all
        paths = tuple(paths[r] if r >= 0 else others[-1 - r] for r in rows.tolist())
    images = replaced(dataset.images, outside.images, rows)
    truth = Truth(truth.labels, truth.in_distribution & ~foreign, source)
    return replace(dataset, images=images, truth=truth, paths=paths)


def check_rate(rate: float) -> None:
    """Raise for a rate that is not a share."""
    if not 0 <= rate <= 1:
        hint = f"; did you mean {rate / 100:g}?" if 1 < rate <= 100 else ""
        raise ConfigError(f"a noise rate must be between 0 and 1, got {rate:g}{hint}")
