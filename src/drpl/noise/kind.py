"""What noise is: parts, each with a share of every class and a way to corrupt it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from drpl.data.dataset import Dataset, Truth
from drpl.data.images import replace_rows
from drpl.errors import ConfigError

if TYPE_CHECKING:
    from drpl.noise.confusion import Confusion

SCHEMES = ("paper", "official")
ROUNDED = 1e-5  # by which rates that are written with six decimals may sum to more than 1


@dataclass(frozen=True)
class NoiseContext:
    """What noise may need besides the data set itself."""

    outside: Dataset | None = None  # images of other classes
    confusion: "Confusion | None" = None  # which classes look alike

    def require_outside(self) -> Dataset:
        """The outside images, or an error that says where to get some."""
        if self.outside is None:
            raise ConfigError(
                "out-of-distribution noise needs images of other classes; give a second data set "
                "with --ood DATA"
            )
        return self.outside

    def require_confusion(self, kind: str, data: str) -> "Confusion":
        """The confusion matrix, or an error that says how to make one."""
        if self.confusion is None:
            raise ConfigError(
                f"{kind} noise needs to know which classes look alike: make a confusion matrix "
                f"with `drpl confusion {data} -o T.npz` and give it with --confusion T.npz"
            )
        return self.confusion


@dataclass(frozen=True)
class Quota:
    """What one part of the noise may take."""

    free: Tensor  # [N] bool, samples that no other part has taken
    counts: Tensor  # [C] int64, how many of each class
    spent: Tensor  # [M] int64, rows of the outside that other parts have used

    def pick(self, labels: Tensor, propensity: Tensor) -> Tensor:
        """In each class its count of free samples, those with the highest propensity."""
        order = propensity.argsort(descending=True, stable=True)
        order = order[self.free[order]]
        members = (order[labels[order] == c] for c in range(len(self.counts)))
        chosen = zip(members, self.counts.tolist(), strict=True)
        return torch.cat([rows[:count] for rows, count in chosen])

    def each(self, labels: Tensor, generator: Generator) -> Iterator[tuple[int, Tensor]]:
        """Class by class its count of free samples, any of them with equal chance."""
        for c, count in enumerate(self.counts.tolist()):
            members = (self.free & (labels == c)).nonzero().flatten()
            order = torch.randperm(len(members), generator=generator)
            yield c, members[order[len(members) - count :]]

    def draw(self, labels: Tensor, chances: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """As `each`, and for each sample a class drawn by the row of its label. [M], [M]"""
        rows, drawn = [], [labels[:0]]
        for c, mine in self.each(labels, generator):
            rows.append(mine)
            if len(mine):
                drawn.append(torch.multinomial(chances[c], len(mine), True, generator=generator))
        return torch.cat(rows), torch.cat(drawn)


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
        return self.apply(dataset, self.draw(dataset, generator))

    def nominal(self, dataset: Dataset) -> float:
        """The share of all samples that is to be corrupted."""
        return sum(part.nominal(dataset) for part in self.parts)

    def draw(self, dataset: Dataset, generator: Generator) -> list[Change]:
        """What each part does; no two touch the same sample."""
        counts = allot(torch.stack([part.rates(dataset) for part in self.parts]), dataset)
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

    def apply(self, dataset: Dataset, changes: Sequence[Change]) -> Dataset:
        """The data set after all changes."""
        labels = dataset.labels.clone()
        for change in changes:
            labels[change.rows] = change.labels
        truth = dataset.truth or Truth(dataset.labels, torch.ones(len(labels), dtype=torch.bool))
        noisy = replace(dataset, labels=labels, truth=truth)
        outside = next((part.outside for part in self.parts if part.outside), None)
        if outside is None:
            return noisy
        pairs = [(c.rows, c.images) for c in changes if c.images is not None]
        rows, images = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
        return _replace_images(noisy, truth, rows, outside, images)


def _replace_images(
    dataset: Dataset, truth: Truth, rows: Tensor, outside: Dataset, images: Tensor
) -> Dataset:
    """The data set with the outside's images at `images` in place of those at `rows`."""
    own, source = truth.in_distribution.clone(), truth.sources.clone()
    own[rows], source[rows] = False, outside.labels[images]
    paths = dataset.paths
    if paths:
        others = outside.paths or ("",) * len(outside)  # their files, or no file at all
        new = dict(zip(rows.tolist(), images.tolist(), strict=True))
        paths = tuple(others[new[r]] if r in new else path for r, path in enumerate(paths))
    return replace(
        dataset,
        images=replace_rows(dataset.images, rows, outside.images, images),
        pictures=dataset.pictures
        and outside.pictures
        and replace_rows(dataset.pictures, rows, outside.pictures, images),
        truth=Truth(truth.labels, own, source),
        paths=paths,
    )


def allot(rates: Tensor, dataset: Dataset) -> Tensor:
    """How many samples of each class each part takes: its rounded share. [K, C] int64"""
    total = rates.sum(0)
    if float(total.max()) > 1 + ROUNDED:
        c = int(total.argmax())
        raise ConfigError(
            f"the noise would corrupt {float(total[c]):.4g} of class {dataset.classes[c]!r}; "
            "choose rates that sum to at most 1"
        )
    sizes = torch.bincount(dataset.labels, minlength=len(dataset.classes))
    exact = rates / total.clamp(min=1) * sizes
    counts = exact.round().long()
    for c in (counts.sum(0) > sizes).nonzero().flatten().tolist():
        # Several halves were rounded up: those that gained most give one back.
        excess = int(counts[:, c].sum() - sizes[c])
        counts[(exact - counts)[:, c].argsort(stable=True)[:excess], c] -= 1
    return counts


def even_rates(rate: float) -> Callable[[Dataset], Tensor]:
    """The same share of each class."""
    check_rate(rate)
    return lambda dataset: torch.full((len(dataset.classes),), rate, dtype=torch.float64)


def check_rate(rate: float) -> None:
    """Raise for a rate that is not a share."""
    if not 0 <= rate <= 1:
        hint = f"; did you mean {rate / 100:g}?" if 1 < rate <= 100 else ""
        raise ConfigError(f"a noise rate must be between 0 and 1, got {rate:g}{hint}")
