"""Decoded images in one file on disk, made once and used by every later run.

The file holds the pixels, [N, C, H, W], and behind them what they are: a line of JSON, its length
and a mark. It gets its name when it is whole, so what has the name and the mark can be used.
"""

import hashlib
import json
import os
import weakref
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from drpl.data.images import Broken, FileImages
from drpl.data.sources import ReadOptions
from drpl.errors import DataError
from drpl.files import digest, open_atomic

CACHE = Path(".drpl-cache")
MARK = b"drplimg1"  # another number when files are decoded to other pixels
TAIL = 8 + len(MARK)  # bytes: length of the JSON, mark


class CachedImages:
    """Images in a file of pixels.

    They are read, not mapped: pages of a map would count as this process's memory, and a file
    cut short would end it without a word.
    """

    ahead = 2

    doubt = ""  # why these are no longer the pixels of the files

    def __init__(self, path: Path, shape: tuple[int, ...], count: int, key: str) -> None:
        self.path, self.shape, self.count, self.key = path, shape, count, key
        self._file, self._lock = path.open("rb", buffering=0), Lock()
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self.count

    def load(self, index: Tensor) -> Tensor:
        """Read the rows of `index`."""
        if self.doubt:
            raise DataError(self.doubt)
        pixels = np.empty((len(index), *self.shape), np.uint8)
        size = prod(self.shape)
        with self._lock:
            for row, i in zip(pixels, index.tolist(), strict=True):
                self._file.seek(i * size)
                if self._file.readinto(row) != size:
                    raise DataError(f"{self.path} ends before image {i}; delete it and run again")
        return torch.from_numpy(pixels)


class Cache(NamedTuple):
    """A whole cache: its images, and which files are missing in it."""

    images: CachedImages
    broken: Broken


def address(
    root: Path, read_options: ReadOptions, part: str, shape: tuple[int, ...] | None
) -> Path:
    """The cache of one part of a data set at one size; a changed part takes its place."""
    where = root.resolve()
    telling = digest(f"{where} {read_options.size} {shape}".encode(errors="surrogateescape"))
    return (read_options.cache or CACHE) / f"{where.name}-{part}-{telling}.images"


def fingerprint(root: Path, names: Sequence[str]) -> str:
    """What tells one state of the files from another: their names, sizes and times."""
    hashed = hashlib.sha256()
    for name in names:
        try:
            state = os.stat(os.path.join(root, name))  # noqa: PTH116, PTH118  a million Paths
            line = f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n"
        except OSError:
            line = f"{name}\0missing\n"
        hashed.update(line.encode(errors="surrogateescape"))
    return hashed.hexdigest()


def opened(path: Path, key: str) -> Cache | None:
    """The cache at `path`, if it is there, whole, and made of what `key` stands for."""
    try:
        with path.open("rb") as file:
            size = file.seek(-TAIL, os.SEEK_END) + TAIL
            length, mark = int.from_bytes(file.read(8), "little"), file.read()
            if mark != MARK or length > size - TAIL:
                return None
            file.seek(size - TAIL - length)
            about = json.loads(file.read(length))
        shape, count = tuple(about["shape"]), about["count"]
        if about["key"] != key or count * prod(shape) + length + TAIL != size:
            return None
        broken = {int(i): why for i, why in about["broken"].items()}
        return Cache(CachedImages(path, shape, count, key), broken)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def made(path: Path, key: str, source: FileImages) -> Cache:
    """The cache at `path`, decoded from `source` unless another process has just done that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if found := opened(path, key):
            return found
        write(path, key, source.shape, source.every())
    whole = opened(path, key)
    if whole is None:
        raise DataError(f"{path} was changed while it was made; run again")
    return whole


def write(
    path: Path, key: str, shape: tuple[int, ...], parts: Iterable[tuple[Tensor, Broken]]
) -> None:
    """Write the pixels of all parts, then what they are."""
    broken: Broken = {}
    count = 0
    with open_atomic(path) as file:
        for pixels, bad in parts:
            file.write(pixels.numpy().data)
            broken |= bad
            count += len(pixels)
        about = {"key": key, "shape": shape, "count": count, "broken": broken}
        text = json.dumps(about).encode()
        file.write(text + len(text).to_bytes(8, "little") + MARK)
