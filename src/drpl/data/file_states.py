"""Files as they were when their pixels were stored: names, sizes, times and contents."""

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpl.data.address import split_address
from drpl.errors import DataError

SMALL = 64 * 2**20  # bytes of files whose contents are all compared when a run goes on
MANY = 5_000  # files that are
SAMPLED = 256  # files of more, and bytes of each, that are
LOOKED_AT = 2**20


class FileStates:
    """The names of files, with the size and time that each had when its pixels were stored."""

    snapshot: Path | None = None  # what to delete if a file turns out to be changed

    def __init__(
        self, root: Path, names: Sequence[str], states: NDArray[Any] | None = None
    ) -> None:
        self.root, self.names = root, names
        self.unchecked = np.zeros(len(names), bool)  # files to be compared when they are read
        self.states = self.read_states() if states is None else states  # [N, 2] int64

    def read_states(self) -> NDArray[Any]:
        """Size and time of each file as it is now. [N, 2]"""
        states = [read_state(os.path.join(self.root, name)) for name in self.names]  # noqa: PTH118
        return np.array(states, np.int64).reshape(-1, 2)

    @cached_property
    def fingerprint(self) -> str:
        """A text that is another one for other names, sizes or times."""
        hashed = hashlib.sha256(self.states.tobytes())
        for name in self.names:
            hashed.update(os.fsencode(name) + b"\0")
        return hashed.hexdigest()

    @cached_property
    def digest(self) -> str:
        """Another text for other names or contents.

        Many files are told apart by all sizes and times and by the contents of some; few by all
        contents, so that a copy of them counts as the same.
        """
        count, sizes = len(self.names), self.states[:, 0]
        few = count <= MANY and int(sizes.clip(0).sum()) <= SMALL
        hashed = hashlib.blake2b((sizes if few else self.states).tobytes(), digest_size=8)
        for name in self.names:
            hashed.update(os.fsencode(name) + b"\0")
        for i in range(count) if few else np.linspace(0, count - 1, SAMPLED).astype(int).tolist():
            path = os.path.join(self.root, self.names[i])  # noqa: PTH118
            hashed.update(_read_start(path, SMALL if few else LOOKED_AT))
        return hashed.hexdigest()

    def check(self, index: NDArray[Any]) -> None:
        """Raise if a file that is read for the first time has changed; the next run sees it."""
        fresh = index[self.unchecked[index]]
        for i, state in zip(fresh.tolist(), self.states[fresh].tolist(), strict=True):
            path = os.path.join(self.root, self.names[i])  # noqa: PTH118
            if list(read_state(path)) != state:
                if self.snapshot:
                    self.snapshot.unlink(missing_ok=True)
                raise DataError(f"{path} has changed since its pixels were stored; run again")
        self.unchecked[index] = False


def _read_start(path: str, most: int) -> bytes:
    """The first bytes of a file; none where it cannot be read."""
    try:
        with open(split_address(path)[0], "rb") as file:  # noqa: PTH123
            return file.read(most)
    except OSError:
        return b""


def read_state(path: str) -> tuple[int, int]:
    """Size and time of a file; where there is none, -1."""
    try:
        state = os.stat(split_address(path)[0])  # noqa: PTH116  a million Paths take long
    except OSError:
        return -1, -1
    return state.st_size, state.st_mtime_ns


def hash_parts(*parts: Any) -> str:
    """16 signs that are others for other bytes."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()
