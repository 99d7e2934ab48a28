"""Which classes look alike: how often networks take one for another."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from drpl.data.dataset import DatasetSplits
from drpl.errors import ConfigError, DataError
from drpl.files import load_arrays, write_arrays
from drpl.noise.transition import transition_matrix

SMOOTHING = 1e-5  # the authors add it to every entry, so that no class is out of reach

Numbering = Literal["files", "wordnet"]  # of classes without names, see `name_classes`


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix with the names of its classes."""

    matrix: Tensor  # [K, K] float64, rows true, columns predicted, each row sums to 1
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.matrix.shape != (len(self.classes), len(self.classes)):
            raise ConfigError(
                f"a confusion matrix has a row and a column for each of its {len(self.classes)} "
                f"classes, got shape {tuple(self.matrix.shape)}"
            )
        if not bool(torch.isfinite(self.matrix).all()) or bool((self.matrix < 0).any()):
            raise ConfigError("a confusion matrix holds rates; some entry is negative or NaN")

    def among(self, rows: Sequence[str], columns: Sequence[str]) -> Tensor:
        """The part for these true and these predicted classes, smoothed. [rows, columns]"""
        if missing := [name for name in (*rows, *columns) if name not in self.classes]:
            raise ConfigError(
                f"the confusion matrix has no class {missing[0]!r} ({len(set(missing))} missing); "
                "make one that has all with `drpl confusion`"
            )
        down, across = ([self.classes.index(name) for name in part] for part in (rows, columns))
        return self.matrix.double()[down][:, across] + SMOOTHING

    def write(self, path: Path) -> None:
        """Store matrix and names as .npz."""
        write_arrays(path, {"matrix": self.matrix.numpy(), "classes": np.array(self.classes)})


def read_confusion(path: Path, data: DatasetSplits, numbering: Numbering = "files") -> Confusion:
    """A confusion matrix for these data from a file, as its numbers are.

    That is what `drpl confusion` has written, or a plain array without names of classes, such as
    the authors' `ConfMatrix.npy`: its classes are then numbered as `name_classes` says.
    """
    try:
        content = load_arrays(path)
        matrix = content["x" if "x" in content else "matrix"].astype(np.float64)
        named = [str(name) for name in content["classes"]] if "classes" in content else None
        if matrix.ndim != 2 or len(matrix) != matrix.shape[1] or not len(matrix):
            raise ValueError(f"its matrix has the shape {matrix.shape}")
        names = name_classes(named or len(matrix), data, numbering)
    except Exception as error:  # a damaged file makes its readers raise almost anything
        raise ConfigError(
            f"cannot read a confusion matrix from {path}: {error}; make one with `drpl confusion`"
        ) from error
    return Confusion(torch.from_numpy(matrix), names)


def name_classes(
    found: Sequence[str] | int, data: DatasetSplits, numbering: Numbering = "files"
) -> tuple[str, ...]:
    """The data set's own names for the classes of a file: for its names, or for as many numbers.

    A name that is a WordNet id becomes that of its class. Numbers are those of the data set's files
    (ImageNet32: the order of the development kit), or, with `wordnet`, places in the sorted WordNet
    ids, which most networks trained on ImageNet have. Other data number their own classes, then
    those outside.
    """
    listed, own = data.listed_classes, data.train.classes
    if not isinstance(found, int):
        own_name = {one.wnid: one.name for one in listed if one.wnid}
        return tuple(own_name.get(name, name) for name in found)
    if numbering == "wordnet":
        if not listed or not all(one.wnid for one in listed):
            raise DataError(f"{data.name} does not say which WordNet ids its classes have")
        listed = tuple(sorted(listed, key=lambda one: one.wnid))
    both = own + (data.outside.classes if data.outside else ())
    known = [tuple(one.name for one in listed), *([] if listed else [both]), own]
    for names in known:
        if len(names) == found:
            return names
    counts = " or ".join(str(count) for count in dict.fromkeys(map(len, known)) if count)
    raise DataError(
        f"its {found} classes have no names, and {data.name} has {counts}; add an array `classes` "
        "with their names or WordNet ids"
    )


def count_confusion(probs: Tensor, labels: Tensor, classes: Sequence[str]) -> Confusion:
    """The confusion matrix of one network's predictions [N, K] on images with right labels [N]."""
    size = len(classes)
    if probs.ndim != 2 or probs.shape[1] != size or len(probs) != len(labels):
        raise DataError(
            f"wanted are probabilities for {size} classes and a label a row, "
            f"got shapes {tuple(probs.shape)} and {tuple(labels.shape)}"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < size:
        raise DataError(f"labels must be 0..{size - 1}, got {labels.min()}..{labels.max()}")
    if (empty := (torch.bincount(labels, minlength=size) == 0).nonzero()).numel():
        raise DataError(
            f"class {classes[int(empty[0])]!r} has no held-out image, so nobody knows what it is "
            "taken for; add some"
        )
    return Confusion(transition_matrix(labels, probs.argmax(1), size), tuple(classes))


def average_confusion(matrices: Sequence[Confusion]) -> Confusion:
    """The mean of several networks' matrices over the same classes, rows summing to 1."""
    first = matrices[0]
    if any(other.classes != first.classes for other in matrices):
        raise DataError("confusion matrices of different classes cannot be averaged")
    mean = torch.stack([one.matrix for one in matrices]).mean(0)
    return Confusion(mean / mean.sum(1, keepdim=True), first.classes)
