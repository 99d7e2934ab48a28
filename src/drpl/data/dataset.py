"""A data set as a user has it: images, the labels they were given, and perhaps the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drpl.data.images import Images, TensorImages
from drpl.errors import DataError

if TYPE_CHECKING:
    from drpl.data.sources import ReadOptions

LARGEST_PART = 2**24  # numbers in double precision at once


@dataclass(frozen=True)
class Truth:
    """What is known of the right answers. For scoring only: no training code accepts it."""

    labels: Tensor  # [N] int64
    in_distribution: Tensor  # [N] bool, False where the image shows none of the classes
    source: Tensor | None = None  # [N] int64, class among the outside's; -1 where in distribution

    def is_noisy(self, given: Tensor) -> Tensor:
        """Which samples carry a label that is wrong. [N] bool"""
        return (self.labels != given) | ~self.in_distribution


@dataclass(frozen=True)
class Dataset:
    """Images and their given labels, which may be wrong."""

    images: Images
    labels: Tensor  # [N] int64
    classes: tuple[str, ...]
    truth: Truth | None = None  # None where nobody knows
    paths: Sequence[str] | None = None  # where each image came from, if it has a file

    def __post_init__(self) -> None:
        check_labels(self.labels, self.classes, len(self.images))

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Origin:
    """What was asked for when a data set was loaded, so that it can be read again."""

    what: str
    read_options: "ReadOptions"
    ood: str | None = None  # the data set that its outside came from, if that is another one


@dataclass(frozen=True)
class DatasetSplits:
    """A named data set with its two parts and how its pixels are normalised."""

    name: str
    train: Dataset
    test: Dataset | None
    mean: tuple[float, ...]  # per channel (or feature), of pixels divided by 255
    std: tuple[float, ...]
    outside: Dataset | None = None  # images of other classes: what out-of-distribution noise takes
    notes: tuple[str, ...] = ()  # what the user should know about how it was read
    origin: Origin | None = None  # None for data that were made in memory


def check_labels(labels: Tensor, classes: Sequence[str], images: int) -> None:
    """Raise a clear error for labels that cannot belong to these images and classes."""
    if len(labels) != images:
        raise DataError(f"{images} images but {len(labels)} labels; there must be one for each")
    if images == 0:
        raise DataError("the data set has no images")
    outside = (labels < 0) | (labels >= len(classes))
    if outside.any():
        first = int(outside.nonzero()[0])
        raise DataError(
            f"label {int(labels[first])} of image {first} is outside 0..{len(classes) - 1} "
            f"({int(outside.sum())} such labels)"
        )


def check_every_class(labels: Tensor, classes: Sequence[str]) -> None:
    """Raise if there is but one class, or one without a training image."""
    if len(classes) < 2:
        only = f" ({classes[0]!r})" if len(classes) else ""
        raise DataError(f"found one class only{only}; at least two are needed to tell apart")
    counts = torch.bincount(labels, minlength=len(classes))
    empty = [name for name, count in zip(classes, counts.tolist(), strict=True) if count == 0]
    if empty:
        raise DataError(
            f"no training image is labelled {', '.join(map(repr, empty[:5]))}; "
            "add some or take the class out"
        )


def statistics(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation per channel of (at most 10,000 evenly chosen) images."""
    chosen = torch.linspace(0, len(images) - 1, min(len(images), 10_000)).long().unique()
    sums, squares, count = torch.zeros(()), torch.zeros(()), 0
    for part in chosen.split(max(1, min(1000, LARGEST_PART // prod(images.shape)))):
        values = images.load(part).double()
        if values.ndim == 4:
            values = (values / 255).transpose(0, 1).flatten(1).T
        sums, squares, count = (
            sums + values.sum(0),
            squares + (values**2).sum(0),
            count + len(values),
        )
    mean = sums / count
    std = (squares / count - mean**2).clamp(min=1e-12).sqrt()
    return tuple(mean.tolist()), tuple(std.clamp(min=1e-3).tolist())


def in_memory(pixels: Tensor, labels: Tensor, classes: Sequence[str], **more: object) -> Dataset:
    """A data set whose images are one tensor."""
    return Dataset(TensorImages(pixels), labels, tuple(classes), **more)  # type: ignore[arg-type]
