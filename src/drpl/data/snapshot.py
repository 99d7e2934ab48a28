"""A folder as it was when its images were cached, so that the next run need not look at each file.

Opening a snapshot takes as long for a million images as for a thousand: only the folders are
compared. Of many files each is compared while training begins, and a change stops it.
"""

import os
import threading
import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from drpl.data import cached
from drpl.data.cached import CachedImages
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.holding import free_memory
from drpl.data.sources import ReadOptions
from drpl.files import digest, write_arrays

FEW = 5_000  # files that are compared at once, in a fraction of a second
AFTER = 1.0  # seconds until more are compared: the first batches come first
PARTS = ("train", "test")
Tables = dict[str, NDArray[Any]]


class Names(Sequence[str]):
    """Many file names in one piece of text, each cut out when it is asked for."""

    def __init__(self, text: NDArray[Any], ends: NDArray[Any]) -> None:
        self.text, self.ends = text, ends

    @classmethod
    def of(cls, names: Sequence[str]) -> "Names":
        """Pack them."""
        packed = [os.fsencode(name) for name in names]
        text = np.frombuffer(b"".join(packed), np.uint8)
        return cls(text, np.cumsum([len(name) for name in packed], dtype=np.int64))

    @classmethod
    def among(cls, tables: Tables, name: str) -> "Names":
        """Those that were stored under a name."""
        return cls(tables[name], tables[f"{name}_ends"])

    def tables(self, name: str) -> Tables:
        """How they are stored."""
        return {name: self.text, f"{name}_ends": self.ends}

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> "list[str]": ...
    def __getitem__(self, k: int | slice) -> "str | list[str]":
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(k)
        k %= len(self)
        start = self.ends[k - 1] if k else 0
        return os.fsdecode(self.text[start : self.ends[k]].tobytes())


def address(root: Path, read_options: ReadOptions) -> Path:
    """Where the snapshot of a folder at one size is."""
    where = root.resolve()
    telling = digest(f"{where} {read_options.size}".encode(errors="surrogateescape"))
    return (read_options.cache or cached.CACHE) / f"{where.name}-{telling}.snapshot.npz"


def remember(
    data: DatasetSplits, root: Path, tops: Sequence[Path], read_options: ReadOptions
) -> None:
    """Write down a data set if all its images are in caches; others have no use for it.

    Every image is in a folder of `tops` or below.
    """
    parts = {"train": data.train} | ({"test": data.test} if data.test else {})
    if data.notes or not all(isinstance(part.images, CachedImages) for part in parts.values()):
        return
    folders = sorted({str(root), *(folder for top in tops for folder, _, _ in os.walk(top))})
    tables: Tables = {
        "classes": np.array(data.train.classes),
        "scale": np.array([data.mean, data.std]),
        "times": np.array([time_of(folder) for folder in folders]),
        **Names.of(folders).tables("folders"),
    }
    for name, part in parts.items():
        assert isinstance(part.images, CachedImages)  # noqa: S101  as checked above
        tables[f"{name}_labels"] = part.labels.numpy()
        tables[f"{name}_cache"] = np.array([part.images.path.name, part.images.key])
        tables |= Names.of(part.paths or ()).tables(f"{name}_names")
    write_arrays(address(root, read_options), tables)


def recalled(root: Path, read_options: ReadOptions) -> DatasetSplits | None:
    """The data set of a folder from its snapshot, if there is one and no folder has changed."""
    path = address(root, read_options)
    try:
        with path.open("rb") as file:
            tables = dict(np.load(file, allow_pickle=False))
        folders = Names.among(tables, "folders")
        if any(time_of(name) != then for name, then in zip(folders, tables["times"], strict=True)):
            return None
        classes, (mean, std) = tuple(map(str, tables["classes"])), tables["scale"].tolist()
        parts = [recalled_part(name, tables, path.parent, classes) for name in PARTS]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    train, test = parts
    if train is None or (test is None) != ("test_labels" not in tables):
        return None
    found = [part for part in (train, test) if part is not None]
    if read_options.hold == "auto" and all(fits(part, read_options) for part in found):
        return None
    if sum(map(len, found)) <= FEW:
        if any(changed(part, root) for part in found):
            return None
    else:
        later = threading.Timer(AFTER, doubt, (found, root, path))
        later.daemon = True
        later.start()
    return DatasetSplits(root.resolve().name, train, test, tuple(mean), tuple(std))


def recalled_part(
    name: str, tables: Tables, caches: Path, classes: tuple[str, ...]
) -> Dataset | None:
    """One part of a data set, if its cache is there and whole."""
    if f"{name}_labels" not in tables:
        return None
    file, key = map(str, tables[f"{name}_cache"])
    found = cached.opened(caches / file, key)
    if found is None:
        return None
    labels = torch.from_numpy(tables[f"{name}_labels"])
    paths = Names.among(tables, f"{name}_names")
    return Dataset(found.images, labels, classes, paths=paths)


def changed(part: Dataset, root: Path) -> bool:
    """Whether a file is no longer what was cached."""
    assert isinstance(part.images, CachedImages)  # noqa: S101  nothing else is in a snapshot
    return cached.fingerprint(root, part.paths or ()) != part.images.key


def doubt(parts: Sequence[Dataset], root: Path, snapshot: Path) -> None:
    """Look at every file after all; if one has changed, the images say so when next asked."""
    if any(changed(part, root) for part in parts):
        snapshot.unlink(missing_ok=True)
        for part in parts:
            assert isinstance(part.images, CachedImages)  # noqa: S101
            part.images.doubt = f"files in {root} have changed since they were cached; run again"


def fits(part: Dataset, read_options: ReadOptions) -> bool:
    """Whether a part may be held in memory instead."""
    budget = read_options.memory if read_options.memory is not None else free_memory() // 2
    return len(part) * prod(part.images.shape) <= budget


def time_of(folder: str) -> int:
    """When something was last added to a folder or taken away."""
    return os.stat(folder).st_mtime_ns  # noqa: PTH116
