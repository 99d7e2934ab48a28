"""Batches of CIFAR and ImageNet32: pickled rows of pixels, plane by plane, with labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drpl.data.safe_pickle import read_pickle
from drpl.errors import DataError


def read_batch(path: Path, key: str = "labels") -> tuple[Tensor, Tensor]:
    """uint8 [N, 3, S, S] and int64 [N] of one file."""
    content = read_pickle(path)
    missing = [name for name in ("data", key) if name not in content]
    if missing:
        raise DataError(f"{path} lacks {missing[0]!r}; it has {', '.join(content) or 'nothing'}")
    rows = content["data"]
    side = square_side(rows)
    if side is None:
        raise DataError(f"{path} should hold uint8 rows of three square planes as 'data'")
    labels = whole_numbers(content[key])
    if labels is None or len(labels) != len(rows):
        raise DataError(f"{path} should hold one whole number for each of {len(rows)} images")
    pixels = np.array(rows).reshape(-1, 3, side, side)  # a copy: the file's bytes are read-only
    return torch.from_numpy(pixels), labels


def square_side(rows: Any) -> int | None:
    """S, if these are rows of 3 x S x S bytes."""
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype != np.uint8:
        return None
    side = round((rows.shape[1] / 3) ** 0.5)
    return side if side > 0 and rows.shape[1] == 3 * side**2 else None


def whole_numbers(values: Any) -> Tensor | None:
    """int64 [N], if that is what these are."""
    if isinstance(values, list) and all(type(value) is int for value in values):
        if any(abs(value) >= 2**31 for value in values):
            return None
        return torch.tensor(values, dtype=torch.int64)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        return torch.from_numpy(values.astype(np.int64))
    return None


def together(parts: Sequence[tuple[Tensor, Tensor]], root: Path) -> tuple[Tensor, Tensor]:
    """Several batches as one."""
    if len({pixels.shape[1:] for pixels, _ in parts}) > 1:
        raise DataError(f"the files in {root} hold images of different sizes")
    pixels, labels = zip(*parts, strict=True)
    return torch.cat(pixels), torch.cat(labels)
