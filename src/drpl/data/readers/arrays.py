"""Arrays in memory or in an `.npz` file: images or vectors, with labels of any kind."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from drpl.data.dataset import (
    Dataset,
    DatasetSplits,
    Encoding,
    Truth,
    check_every_class,
    in_memory,
    statistics,
)
from drpl.data.images import FileImages
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError
from drpl.files import load_arrays

Array = NDArray[Any]
FROM_ENCODE = ("paths", "paths_test", "tags", "tags_test", "encoding")  # what `drpl encode` adds
FAR = 100_000  # a class number that lies so far beyond the number of labels is a mistake
SHOWN = 64  # pixels a side of the pictures that vectors were made of


def arrays(
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    classes: Sequence[str] | None = None,
    y_true: ArrayLike | None = None,
    name: str = "arrays",
) -> DatasetSplits:
    """A data set from arrays.

    `x` is [N, H, W], [N, H, W, C] or [N, C, H, W] for images (uint8, or floats in 0..1) and
    [N, D] for vectors. `y` holds class numbers or names. `y_true`, where known, is for scoring;
    it is -1 where the image shows none of the classes.
    """
    data = _build(x, y, x_test, y_test, classes=classes, y_true=y_true, name=name)
    check_every_class(data.train.labels, data.train.classes)
    return data


def _build(
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    classes: Sequence[str] | None,
    y_true: ArrayLike | None = None,
    name: str,
) -> DatasetSplits:
    """The same, whatever the classes."""
    given, names = to_labels(np.asarray(y), classes)
    pixels = to_pixels(np.asarray(x))
    truth = None
    if y_true is not None:
        right, _ = to_labels(np.asarray(y_true), names)
        shown = right >= 0
        truth = Truth(torch.where(shown, right, given), shown)
    train = in_memory(pixels, given, names, truth=truth)
    test: Dataset | None = None
    if x_test is not None and y_test is not None:
        y_given, _ = to_labels(np.asarray(y_test), names)
        test = in_memory(to_pixels(np.asarray(x_test)), y_given, names)
        if test.images.shape != train.images.shape:
            raise DataError(
                f"test images have shape {test.images.shape}, training images {train.images.shape}"
            )
    return DatasetSplits(name, train, test, *statistics(train.images))


def read_npz(path: Path, read_options: ReadOptions | None = None) -> DatasetSplits:
    """A data set from an `.npz` file with the arrays that `arrays` takes, by the same names."""
    with explain_data_errors(path):
        content = load_arrays(path)
    wanted, optional = {"x", "y"}, ("x_test", "y_test", "y_true", "classes")
    known = {*wanted, *optional, *FROM_ENCODE}
    if not wanted <= content.keys() or not content.keys() <= known:
        raise DataError(
            f"{path} holds the arrays {', '.join(sorted(content)) or 'none'}; wanted are x and y, "
            f"and if there are any {', '.join((*optional, *FROM_ENCODE))}"
        )
    if "classes" in content:
        content["classes"] = [str(name) for name in content["classes"]]
    made = {name: content.pop(name, None) for name in FROM_ENCODE}
    data = _build(**{"classes": None} | content, name=path.stem)
    train = _with_paths(data.train, made["paths"], path)
    test = data.test and _with_paths(data.test, made["paths_test"], path)
    train = _with_tags(train, made["tags"], path)
    test = test and _with_tags(test, made["tags_test"], path)
    made_by = _read_encoding(made["encoding"], path)
    return replace(data, train=train, test=test, encoding=made_by, root=path.parent)


def _with_tags(part: Dataset, tags: Array | None, file: Path) -> Dataset:
    """A part with all labels of each of its images."""
    if tags is None:
        return part
    shape = (len(part), len(part.classes))
    if tags.shape != shape or tags.dtype != np.bool_:
        raise DataError(f"{file}: its tags should be true or false in the shape {shape}")
    return replace(part, tags=torch.from_numpy(tags))


def _with_paths(part: Dataset, paths: Array | None, file: Path) -> Dataset:
    """A part with the files that its vectors were made of."""
    if paths is None:
        return part
    if paths.shape != (len(part),):
        raise DataError(
            f"{file} has {paths.size} paths for {len(part)} samples; wanted is one each"
        )
    names = tuple(map(str, paths))
    pictures = FileImages(names, SHOWN, 3, file.parent) if len(part.images.shape) == 1 else None
    return replace(part, paths=names, pictures=pictures)


def _read_encoding(text: Array | None, file: Path) -> Encoding | None:
    """What the vectors were made by."""
    try:
        return None if text is None else Encoding(**json.loads(str(text)))
    except (ValueError, TypeError) as error:
        raise DataError(f"{file}: its array 'encoding' is damaged ({error})") from None


def to_labels(values: Array, classes: Sequence[str] | None) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers [N], and the class names."""
    if values.ndim != 1:
        raise DataError(f"labels must be one number or name an image, got shape {values.shape}")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise DataError(f"labels contain NaN or infinity, first at {_find_bad_row(values)}")
        if (values != values.round()).any():
            raise DataError("labels are fractions; class numbers or names are wanted")
    if values.dtype.kind in "iubf":
        if classes is None and len(values) and values.max() >= len(values) + FAR:
            raise DataError(
                f"{len(values)} labels, and one of them is {values.max()}; number the classes from "
                "0 on, or give their names"
            )
        if len(values) and not -(2**31) < values.min() <= values.max() < 2**31:
            raise DataError(f"labels must be class numbers, got {values.min()}..{values.max()}")
        labels = torch.from_numpy(values.astype(np.int64))
        top = int(labels.max()) + 1 if len(labels) else 0
        return labels, tuple(map(str, range(top)) if classes is None else classes)
    words = [str(value) for value in values]
    names = tuple(sorted(set(words)) if classes is None else classes)
    if unknown := sorted(set(words) - set(names)):
        raise DataError(f"label {unknown[0]!r} is not one of the classes {', '.join(names)}")
    position = {name: number for number, name in enumerate(names)}
    return torch.tensor([position[word] for word in words], dtype=torch.int64), names


def to_pixels(values: Array) -> Tensor:
    """uint8 [N, C, H, W] for images, float32 [N, D] for vectors."""
    if values.dtype.kind not in "uifb":
        raise DataError(f"images must be numbers, got an array of {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            f"the images contain NaN or infinity, first in image {_find_bad_row(values)}; "
            "replace or remove such values"
        )
    if values.ndim == 2:
        return torch.from_numpy(values.astype(np.float32))
    if values.ndim not in (3, 4):
        raise DataError(
            f"images must be [N, H, W], [N, H, W, C], [N, C, H, W] or vectors [N, D], "
            f"got shape {values.shape}"
        )
    if values.dtype != np.uint8:
        low, high = (values.min(), values.max()) if values.size else (0, 0)
        if low < 0 or high > 255:
            raise DataError(f"pixels must be in 0..255 or 0..1, got {low}..{high}")
        unit = values.dtype.kind == "f" and high <= 1
        values = np.rint(values * 255 if unit else values).astype(np.uint8)
    if values.ndim == 3:
        values = values[:, None]
    elif values.shape[3] in (1, 3) and values.shape[1] not in (1, 3):
        values = values.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))  # maps may be read-only


def _find_bad_row(values: Array) -> int:
    """The first row that holds something not finite."""
    return int(np.argwhere(~np.isfinite(values))[0][0])
