"""Features on disk: what an encoder made of an image is computed once.

A store belongs to one encoder at one size. `NAME.rows` holds float16 vectors one after the other,
`NAME.keys` 16 bytes for each, which say of what image it is: of a file its path, size and time, of
other images their pixels. Rows are written before their keys, part by part, and only whole pairs
count, so a kill loses the last part and nothing else. What changed has another key.
"""

import hashlib
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from itertools import pairwise, repeat
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from drpl.data.file_states import read_state
from drpl.data.images import ComposedImages, FileImages, Images, Lineage
from drpl.errors import DataError
from drpl.files import explain_write_errors

KEY = 16  # bytes
PART = 4096  # images whose keys are made, or vectors that are read, together
HALF = np.dtype(np.float16)


class FeatureStore:
    """The vectors of one encoder, found by the images that they were made of."""

    def __init__(self, folder: Path, name: str, dim: int) -> None:
        self.dim, self._size = dim, dim * HALF.itemsize
        self.rows_path, self.keys_path = folder / f"{name}.rows", folder / f"{name}.keys"
        with explain_write_errors(self.keys_path):
            folder.mkdir(parents=True, exist_ok=True)
            for path in (self.rows_path, self.keys_path):
                path.touch()
        self._lock = FileLock(folder / f"{name}.lock")  # held by whoever adds to it
        self._known: dict[bytes, int] = {}
        self._read_keys()

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The row of each image, -1 where there is none yet. [N]"""
        return np.fromiter(map(self._known.get, keys, repeat(-1)), np.int64, len(keys))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone, with all that other processes have added and nothing that a kill left half."""
        with explain_write_errors(self.rows_path):
            self._lock.acquire()
            self._read_keys()
            os.truncate(self.rows_path, len(self._known) * self._size)
            os.truncate(self.keys_path, len(self._known) * KEY)
        try:
            yield
        finally:
            self._lock.release()

    def add(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        """Append the vectors [B, dim] of images that are not there yet; only while locked."""
        new = {key: k for k, key in enumerate(keys) if key not in self._known}
        rows = vectors.numpy()[list(new.values())].astype(HALF)
        with explain_write_errors(self.rows_path):
            for path, content in (
                (self.rows_path, rows.tobytes()),
                (self.keys_path, b"".join(new)),
            ):
                with path.open("ab") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
        for key in new:
            self._known[key] = len(self._known)

    def _read_keys(self) -> None:
        """All keys whose rows are whole."""
        packed = self.keys_path.read_bytes()
        count = min(len(packed) // KEY, self.rows_path.stat().st_size // self._size)
        every = np.frombuffer(packed, f"V{KEY}", count).tolist()  # a million in half a second
        self._known = dict(zip(every, range(count), strict=True))
        if len(self._known) < count:
            raise DataError(f"{self.keys_path} is damaged: it has a key twice; delete it")


class StoredVectors:
    """Rows of feature stores, read when they are asked for; of several, their mean."""

    ahead = 2

    def __init__(
        self,
        sources: Sequence[tuple[Path, NDArray[np.int64]]],
        dim: int,
        made_of: Lineage | None = None,
    ) -> None:
        self.rows = [rows for _, rows in sources]
        self.made_of = made_of  # the images; which encoder it was is known elsewhere
        self.shape: tuple[int, ...] = (dim,)
        self._files = [path.open("rb", buffering=0) for path, _ in sources]
        self._lock = Lock()
        for file in self._files:
            weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self.rows[0])

    def load(self, index: Tensor) -> Tensor:
        """float32 [B, D]. Read, not mapped: see `data.images.PackedImages`."""
        total = np.zeros((len(index), *self.shape), np.float32)
        for start in range(0, len(index), PART):
            part = index[start : start + PART].cpu().numpy()
            for file, rows in zip(self._files, self.rows, strict=True):
                total[start : start + PART] += self._read(file, rows[part])
        total /= len(self.rows)
        return torch.from_numpy(total)

    def _read(self, file: FileIO, rows: NDArray[np.int64]) -> NDArray[np.float16]:
        """Some rows of a file; those that follow each other there are read together. [B, D]"""
        vectors = np.empty((len(rows), *self.shape), HALF)
        size = self.shape[0] * HALF.itemsize
        starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()
        with self._lock:
            for start, end in pairwise([*starts, len(rows)]):
                file.seek(int(rows[start]) * size)
                if file.readinto(vectors[start:end].data) != (end - start) * size:
                    raise DataError(f"{file.name} was cut short while it was read; run again")
        return vectors


def make_all_keys(images: Images) -> list[bytes]:
    """16 bytes for each image that are others for another image."""
    every = torch.arange(len(images)).split(PART)
    return [key for index in every for key in make_keys(images, index)]


def make_keys(images: Images, index: Tensor) -> list[bytes]:
    """The keys of some of the images."""
    if isinstance(images, ComposedImages):
        keys = [b""] * len(index)
        for source, place, inner in images.locate(index):
            for at, key in zip(place.tolist(), make_keys(source, inner), strict=True):
                keys[at] = key
        return keys
    if isinstance(images, FileImages):
        root = Path(images.root).resolve()
        paths = [os.path.join(root, images.paths[i]) for i in index.tolist()]  # noqa: PTH118
        return [_hash(os.fsencode(path), repr(read_state(path)).encode()) for path in paths]
    pixels = images.load(index).numpy()
    return [_hash(str(image.shape).encode(), image.tobytes()) for image in pixels]


def _hash(*contents: bytes) -> bytes:
    hashed = hashlib.blake2b(digest_size=KEY)
    for content in contents:
        hashed.update(content + b"\0")
    return hashed.digest()
