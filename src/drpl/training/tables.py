"""Tables with a row for each sample: in memory, or mapped from a file where they are large.

A mapped file has no name, so that a killed process leaves nothing behind. What is worked on part by
part is handed back to the system after each part: a table of any size takes little memory.
"""

import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from pathlib import Path
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from drpl.distributed import all_reduce_sum
from drpl.files import explain_write_errors

BUDGET = 2 * 2**30  # bytes up to which a table is kept in memory
PART = 64 * 2**20  # bytes of large tables that are worked on at once
WHOLE = 512 * 2**20  # bytes of tables in memory up to which all is
CPU = torch.device("cpu")

# Stages are made by methods, which know of no folder.
_folder: ContextVar[Path | None] = ContextVar("folder", default=None)
_maps: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()  # by address


@contextmanager
def map_in(folder: Path) -> Iterator[None]:
    """Keep large tables on the disk of that folder; that of temporary files may be memory."""
    before = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(before)


def fits_memory(*shape: int) -> bool:
    """Whether a table of that shape is kept in memory, and in full precision."""
    return prod(shape) * torch.float32.itemsize <= BUDGET


def make_table(
    *shape: int, dtype: torch.dtype = torch.float32, device: torch.device = CPU
) -> Tensor:
    """Zeros; in a mapped file if they are for the CPU and too large for memory."""
    if fits_memory(*shape) or device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = prod(shape) * dtype.itemsize
    place = _folder.get() or Path(tempfile.gettempdir())
    with explain_write_errors(place), tempfile.TemporaryFile(dir=place) as file:
        # All of it now: a map of a file that finds the disk full ends the process without a word.
        if sys.platform == "linux":
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            os.truncate(file.fileno(), size)
        mapped = mmap.mmap(file.fileno(), size)
    table = torch.frombuffer(mapped, dtype=dtype).view(shape)
    _maps[table.data_ptr()] = mapped
    return table


def is_mapped(table: Tensor) -> bool:
    """Whether a table, or what it is a view of, is a mapped file."""
    return table.untyped_storage().data_ptr() in _maps


def release(*tables: Tensor) -> None:
    """Hand the memory of mapped tables back; what they hold stays, and is read when needed."""
    for table in tables:
        mapped = _maps.get(table.untyped_storage().data_ptr())
        if mapped is not None and sys.platform != "win32":
            mapped.madvise(mmap.MADV_DONTNEED)


def split_rows(count: int, *tables: Tensor) -> Iterator[slice]:
    """Rows of the tables to work on together: all at once, unless they are large or mapped."""
    step, size = count, sum(table.nbytes for table in tables)
    if size > WHOLE or any(map(is_mapped, tables)):
        step = max(1, PART * count // size)
    for start in range(0, count, max(1, step)):
        yield slice(start, min(count, start + step))
        release(*tables)


class TableUpdate:
    """What an epoch finds for samples: each process puts its rows, in the end all have all rows.

    found = TableUpdate(len(labels), classes, device=labels.device)
    found.put(i, probs)                            # in each batch
    for rows, new, seen in found.gather():         # after the last one, part by part
        table[rows] = torch.where(seen, new, table[rows])
    """

    def __init__(self, samples: int, columns: int, *, device: torch.device) -> None:
        self.new = make_table(samples, columns, device=device)
        self.seen = torch.zeros(samples, 1, device=device)

    def put(self, i: Tensor, rows: Tensor) -> None:
        """Rows [B, K] of the samples i; a sample comes once in an epoch."""
        self.new[i], self.seen[i] = rows.detach().float(), 1.0

    def gather(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Which rows, what was found for them [n, K], and whether anything was [n, 1]."""
        new, seen = all_reduce_sum(self.new), all_reduce_sum(self.seen) > 0
        for rows in split_rows(len(new), new):
            yield rows, new[rows], seen[rows]
