"""Features that the user made: an array beside the images, a row for each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpl.data.dataset import Dataset, DatasetSplits, statistics
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import to_pixels
from drpl.data.sources import explain_data_errors
from drpl.errors import DataError
from drpl.files import load_arrays

ENDINGS = (".npz", ".npy")


def is_features_file(name: str) -> bool:
    """Whether a name is that of a file of features and not of an encoder."""
    return Path(name).suffix.lower() in ENDINGS


def with_features(data: DatasetSplits, path: Path) -> DatasetSplits:
    """The data with the vectors of a file: `x` and `x_test` of an `.npz`, or one `.npy`.

    Rows belong to the images in their order or, where the file has `paths`, by their names. A
    test part without features is left out.
    """
    if not path.is_file():
        raise DataError(f"there is no file of features {path}")
    with explain_data_errors(path):
        arrays = load_arrays(path)
    if "x" not in arrays:
        raise DataError(f"{path} holds the arrays {', '.join(arrays)}; wanted is x, and x_test")
    train, test = _join(data.train, arrays, "", path), None
    notes = data.notes
    if data.test and "x_test" in arrays:
        test = _join(data.test, arrays, "_test", path)
    elif data.test:
        notes += (f"{path} has no x_test; the test part is left out",)
    mean, std = statistics(train.images)
    return replace(data, train=train, test=test, outside=None, mean=mean, std=std, notes=notes)


def _join(part: Dataset, arrays: dict[str, Any], ending: str, path: Path) -> Dataset:
    """A part of the data with its rows of the file."""
    vectors: NDArray[Any] = arrays[f"x{ending}"]
    if vectors.ndim != 2 or vectors.dtype.kind not in "uifb":
        raise DataError(
            f"{path}: x{ending} should be numbers [images, features], got {vectors.dtype} of "
            f"shape {vectors.shape}"
        )
    names = arrays.get(f"paths{ending}")
    if names is not None and len(names) != len(vectors):
        raise DataError(
            f"{path}: there are {len(names):,} paths{ending} for {len(vectors):,} rows of "
            f"x{ending}; wanted is one each"
        )
    if names is not None and part.paths:
        vectors = vectors[_match(part.paths, [str(name) for name in names], path)]
    elif len(vectors) != len(part):
        raise DataError(
            f"{path}: x{ending} has {len(vectors):,} rows, but there are {len(part):,} images; "
            "there must be one for each, in the order of `drpl encode`, or an array `paths`"
        )
    bad = ~np.isfinite(vectors).all(1)
    if bad.any():
        raise DataError(
            f"{path}: {int(bad.sum())} rows of x{ending} hold NaN or infinity, the first is row "
            f"{int(bad.argmax())}; replace or remove them"
        )
    return replace(part, images=TensorImages(to_pixels(vectors)), pictures=part.images)


def _match(wanted: Sequence[str], names: list[str], path: Path) -> NDArray[np.intp]:
    """The row of each image by its path, or by as many of its last parts as the data name."""
    parts_of = [Path(name).parts for name in wanted]
    rows: dict[tuple[str, ...], int] = {}
    several = set()
    for length in {len(parts) for parts in parts_of}:
        for k, name in enumerate(names):
            end = Path(name).parts[-length:]
            if rows.setdefault(end, k) != k:
                several.add(end)
    for name, parts in zip(wanted, parts_of, strict=True):
        if parts not in rows:
            raise DataError(f"{path} has no row for the image {name}")
        if parts in several:
            raise DataError(f"{path} has several rows for the image {name}")
    return np.array([rows[parts] for parts in parts_of], np.intp)
