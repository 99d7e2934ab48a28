"""A data set as a user has it: images, the labels they were given, and perhaps the truth."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from drpl.data import images as pixel_sources
from drpl.data.file_states import hash_parts
from drpl.data.images import Images, TensorImages
from drpl.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from drpl.data.sources import ReadOptions

NAMED = 5  # classes in an error
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

    @property
    def sources(self) -> Tensor:
        """The class of each image among the outside's; -1 where it is not from there. [N]"""
        return torch.full_like(self.labels, -1) if self.source is None else self.source

    def select(self, index: Tensor) -> "Truth":
        """That of the samples at `index`."""
        source = None if self.source is None else self.source[index]
        return Truth(self.labels[index], self.in_distribution[index], source)

    def concat(self, other: "Truth", classes: int) -> "Truth":
        """Both, the labels of the other counted on from `classes`."""
        known = self.source is not None or other.source is not None
        return Truth(
            torch.cat([self.labels, other.labels + classes]),
            torch.cat([self.in_distribution, other.in_distribution]),
            torch.cat([self.sources, other.sources]) if known else None,
        )


@dataclass(frozen=True)
class Dataset:
    """Images and their given labels, which may be wrong.

    Where an image may carry several labels, or none, `tags` has them all; `labels` then holds the
    first of each, and 0 where there is none.

    What selects, joins or scales gives a new data set, in which labels, truth and paths stay with
    their images. Images in memory stay there; others are read when they are asked for.
    """

    images: Images
    labels: Tensor  # [N] int64
    classes: tuple[str, ...]
    truth: Truth | None = None  # None where nobody knows
    paths: Sequence[str] | None = None  # where each image came from, if it has a file
    pictures: Images | None = None  # what to show of each sample, where it is a vector
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what a list says besides
    tags: Tensor | None = None  # [N, C] bool, where an image may have several labels
    official_order: Tensor | None = None  # [N] rows as the authors' code lists them, if otherwise

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.images.shape))
        return f"{len(self):,} of {shape} in {len(self.classes)} classes"

    def __post_init__(self) -> None:
        check_labels(self.labels, self.classes, len(self.images))

    def __len__(self) -> int:
        return len(self.images)

    @property
    def true_labels(self) -> Tensor:
        """The true labels, or the given ones where nobody knows better. [N]"""
        return self.labels if self.truth is None else self.truth.labels

    @property
    def entries(self) -> Tensor:
        """The class of every label that an image carries: one each, unless there are tags."""
        return self.labels if self.tags is None else self.tags.nonzero()[:, 1]

    def with_true_labels(self) -> "Dataset":
        """The same images with their true labels for given ones, where they are known."""
        return replace(self, labels=self.true_labels, truth=None)

    def select(self, index: Tensor) -> "Dataset":
        """The samples at `index`, in that order."""
        return replace(
            self,
            images=pixel_sources.select(self.images, index),
            pictures=self.pictures and pixel_sources.select(self.pictures, index),
            labels=self.labels[index],
            truth=self.truth and self.truth.select(index),
            paths=self.paths and tuple(self.paths[i] for i in index.tolist()),
            columns=select_columns(self.columns, index.tolist()),
            tags=None if self.tags is None else self.tags[index],
            official_order=None,  # a part is none of the authors' lists
        )

    def select_classes(self, names: Sequence[str]) -> "Dataset":
        """The samples that have one of these labels and, if the truth is known, show one.

        The classes are numbered anew, in the order of `names`.
        """
        part = self.select(self._is_among(names).nonzero().flatten())
        wanted = dict.fromkeys(names)  # none twice; but two classes may share a name
        keep = [c for name in wanted for c, own in enumerate(self.classes) if own == name]
        number = torch.full((len(self.classes),), -1)
        number[keep] = torch.arange(len(keep))
        truth = part.truth and replace(part.truth, labels=number[part.truth.labels])
        classes = tuple(self.classes[c] for c in keep)
        return replace(part, labels=number[part.labels], classes=classes, truth=truth)

    def limit(self, count: int) -> "Dataset":
        """At most `count` samples: the first of each class, as many of one as of another."""
        if count >= len(self):
            return self
        turn = torch.empty_like(self.labels)  # how many samples of its class come before each
        for c in self.labels.unique():
            mine = self.labels == c
            turn[mine] = torch.arange(int(mine.sum()))
        return self.select(turn.argsort(stable=True)[:count].sort().values)

    def concat(self, other: "Dataset") -> "Dataset":
        """Both, the other's images in the shape of these and its classes after these.

        The truth is known where it is for both.
        """
        both, own = (self, other), len(self.classes)
        paths = tuple(path for part in both for path in part.paths or [""] * len(part))
        shown = self.pictures and other.pictures
        return Dataset(
            pixel_sources.concat(self.images, other.images),
            torch.cat([self.labels, other.labels + own]),
            self.classes + other.classes,
            self.truth.concat(other.truth, own) if self.truth and other.truth else None,
            paths if self.paths or other.paths else None,
            pixel_sources.concat(self.pictures, shown) if self.pictures and shown else None,
        )

    def resize(self, side: int) -> "Dataset":
        """Square images, `side` pixels wide and high; vectors stay as they are."""
        return replace(self, images=pixel_sources.resize(self.images, side))

    def to_huggingface(self) -> Any:
        """A `datasets.Dataset` of Hugging Face with the same images and labels, in memory.

        Its columns are `image`, or `features` where the data are vectors, and `label`.
        """
        from drpl.data.readers.interop import to_huggingface

        return to_huggingface(self)

    def identify(self) -> str:
        """A text that is another one for other images, labels, class names or truth."""
        texts = [pixel_sources.identify(self.images), *self.classes]
        tables = [self.labels]
        if self.tags is not None:
            tables.append(self.tags.long())
        texts += [cell for name, cells in self.columns.items() for cell in (name, *cells)]
        if truth := self.truth:
            tables += [truth.labels, truth.in_distribution.long(), truth.sources]
        named = "\0".join(texts).encode(errors="surrogateescape")
        return hash_parts(named, *(table.numpy().tobytes() for table in tables))

    def check_names(self, names: Collection[str]) -> None:
        """Raise for the first name that no class has."""
        for name in names:
            if name not in self.classes:
                raise DataError(f"no class is named {name!r}; {did_you_mean(name, self.classes)}")

    def has_any(self, names: Collection[str]) -> bool:
        """Whether a sample has one of these labels and, if the truth is known, shows one."""
        return bool(self._is_among(names).any())

    def _is_among(self, names: Collection[str]) -> Tensor:
        """Which samples have one of these classes as given and as true label. [N] bool"""
        self.check_names(names)
        wanted = torch.tensor([name in names for name in self.classes])
        return wanted[self.labels] & wanted[self.true_labels]


@dataclass(frozen=True)
class Origin:
    """What was asked for when a data set was loaded, so that it can be read again."""

    what: str
    read_options: "ReadOptions"
    ood: str | None = None  # the data set that its outside came from, if that is another one


@dataclass(frozen=True)
class Encoding:
    """By what images were made vectors: enough to do the same to other images."""

    encoder: str  # a name from `drpl list encoders`
    size: int  # pixels a side that it was shown
    mirrored: bool  # whether vectors are means of an image's and its mirror image's
    weights: str  # a fingerprint of the encoder


class ListedClass(NamedTuple):
    """A class in the numbering of a data set's files."""

    name: str  # as in `Dataset.classes`
    wnid: str  # its WordNet id; empty where the files do not say


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
    encoding: Encoding | None = None  # of vectors that were made of images
    root: Path | None = None  # where the paths of image files begin
    listed_classes: tuple[ListedClass, ...] = ()  # all, outside ones too, by the files' numbers

    def __repr__(self) -> str:
        tested = f", test {self.test!r}" if self.test else ""
        made = f", features of {self.encoding.encoder}" if self.encoding else ""
        return f"DatasetSplits({self.name}: train {self.train!r}{tested}{made})"

    def resize(self, side: int) -> "DatasetSplits":
        """Images of that size in each part; mean and deviation stay those of the whole."""
        return self._map(lambda part: part.resize(side))

    def limit(self, count: int) -> "DatasetSplits":
        """At most `count` images in each part, evenly over the classes."""
        return self._map(lambda part: part.limit(count))

    def hold_out(self, classes: Collection[str]) -> "DatasetSplits":
        """Take whole classes out of both parts; their training images join `outside`.

        Where the truth is known it says what an image shows. An image of a class that stays but
        was given the label of one that goes has no label left, and is dropped.
        """
        if not classes:
            return self
        self.train.check_names(classes)
        names, shown, test = self.train.classes, self.train.with_true_labels(), self.test
        stay = [name for name in names if name not in classes]
        leave = [name for name in names if name in classes]
        if len(stay) < 2:
            raise DataError(f"of {len(names)} classes at least two must stay; set fewer aside")
        if not (self.train.has_any(stay) and shown.has_any(leave)):
            raise DataError(f"one side has no images when {', '.join(classes)} are set aside")
        train, outside = self.train.select_classes(stay), shown.select_classes(leave)
        notes = self.notes
        if dropped := len(self.train) - len(train) - len(outside):
            notes += (f"dropped {dropped} images whose given label is a class that was set aside",)
        return replace(
            self,
            train=train,
            test=test.select_classes(stay) if test and test.has_any(stay) else None,
            outside=self.outside.concat(outside) if self.outside else outside,
            notes=notes,
        )

    def _map(self, change: Callable[[Dataset], Dataset]) -> "DatasetSplits":
        """The same change made to every part."""
        test, outside = (part and change(part) for part in (self.test, self.outside))
        return replace(self, train=change(self.train), test=test, outside=outside)

    def with_ood(self, other: "Dataset | DatasetSplits") -> "DatasetSplits":
        """The same data with these images, or a set's training images, as `outside`."""
        outside = other if isinstance(other, Dataset) else other.train
        return replace(self, outside=outside, origin=self.origin and replace(self.origin, ood=None))


def select_columns(
    columns: Mapping[str, Sequence[str]], index: Sequence[int]
) -> dict[str, tuple[str, ...]]:
    """The rows at `index` of every column."""
    return {name: tuple(cells[i] for i in index) for name, cells in columns.items()}


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


class EmptyClassError(DataError):
    """A class has no training image; the `others` have some."""

    def __init__(self, sentence: str, others: Sequence[str]) -> None:
        super().__init__(sentence)
        self.others = tuple(others)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.others)  # else it breaks a pool of processes


def check_every_class(
    labels: Tensor,
    classes: Sequence[str],
    listed: Tensor | None = None,
    folder: Path | None = None,
) -> None:
    """Raise if there is but one class, or one without a training image.

    `listed` are the labels of all images, where `labels` are those of the images that could be
    read; `folder` is where each class has a folder of its name.
    """
    if len(classes) < 2:
        only = f" ({classes[0]!r})" if len(classes) else ""
        raise DataError(f"found one class only{only}; at least two are needed")
    counts = torch.bincount(labels, minlength=len(classes)).tolist()
    empty = [k for k, count in enumerate(counts) if count == 0]
    if not empty:
        return
    others = [name for k, name in enumerate(classes) if k not in empty]
    enough = len(others) > 1
    names = [classes[k] for k in empty[:NAMED]]
    more = f" and {len(empty) - NAMED} more" if len(empty) > NAMED else ""
    remedy = "add some"
    if listed is not None and (lost := int(torch.isin(listed, torch.tensor(empty)).sum())):
        which = ", ".join(map(repr, names)) + more
        what, remedy = f"none of the {lost:,} images labelled {which} can be read", "mend them"
    elif folder:
        what = f"there are no images in {', '.join(str(folder / name) for name in names)}{more}"
        remedy += f", remove the folder{'s' * (len(empty) > 1)}" if enough else ""
    else:
        what = f"no training image is labelled {', '.join(map(repr, names))}{more}"
    remedy += ", or read the other classes only (--classes)" if enough else ""
    raise EmptyClassError(f"{what}; {remedy}", others)


def statistics(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation per channel of (at most 10,000 evenly chosen) images."""
    chosen = torch.linspace(0, len(images) - 1, min(len(images), 10_000)).long().unique()
    sums, squares, count = torch.zeros(()), torch.zeros(()), 0
    for part in chosen.split(max(1, min(1000, LARGEST_PART // prod(images.shape)))):
        values = images.load(part).double()
        if values.ndim == 4:
            values = (values / 255).transpose(0, 1).flatten(1).T
        sums, squares = sums + values.sum(0), squares + (values**2).sum(0)
        count += len(values)
    mean = sums / count
    std = (squares / count - mean**2).clamp(min=1e-12).sqrt()
    return tuple(mean.tolist()), tuple(std.clamp(min=1e-3).tolist())


def in_memory(
    pixels: Tensor, labels: Tensor, classes: Sequence[str], truth: Truth | None = None
) -> Dataset:
    """A data set whose images are one tensor."""
    return Dataset(TensorImages(pixels), labels, tuple(classes), truth)
