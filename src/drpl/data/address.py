"""Where one image is: a file, or a part of one that is named after a `#`.

    photos/a.jpg                                a file
    photos/a.jpg#xywh=10,20,64,48               a region of it: left, top, width, height in pixels
    shards/000.tar#cats/0001.jpg                a member of a tar archive
    train/data-00000-of-00001.arrow#image/17    a row of a column of an Arrow file

Such addresses stand wherever a path does: in lists, in tables, in caches. A file whose own name
has the sign goes first. Nothing is unpacked: a member is read where it lies.
"""

import os
import re
import tarfile
from functools import lru_cache
from pathlib import Path
from posixpath import normpath
from threading import RLock
from typing import Any

from drpl.errors import DataError

SIGN = "#"
REGION = re.compile(r"xywh=(\d+),(\d+),(\d+),(\d+)")
ARCHIVE, TABLE = ".tar", ".arrow"
MOST_BYTES = 512 * 2**20  # of an image inside of another file
OPENED = 64  # archives whose contents are remembered

Region = tuple[int, int, int, int]  # left, top, right, bottom
Members = dict[str, tuple[int, int]]  # where a member's bytes begin, and how many there are


def split_address(path: Path | str) -> tuple[str, str]:
    """The file, and which part of it; nothing for the whole."""
    text = os.fspath(path)
    if SIGN not in text or os.path.lexists(text):
        return text, ""
    for found in re.finditer(SIGN, text):
        if os.path.isfile(text[: found.start()]):  # noqa: PTH113
            return text[: found.start()], text[found.end() :]
    return text, ""


def is_there(path: Path | str) -> bool:
    """Whether there is such a file; what is inside of it is seen when that is read."""
    return os.path.isfile(split_address(path)[0])  # noqa: PTH113


def name_region(file: str, region: Region) -> str:
    """The address of a region."""
    left, top, right, bottom = region
    return f"{file}{SIGN}xywh={left},{top},{right - left},{bottom - top}"


def find_region(path: Path | str) -> Region | None:
    """The region that an address means, if it means one."""
    found = REGION.fullmatch(split_address(path)[1])
    if not found:
        return None
    left, top, width, height = map(int, found.groups())
    return left, top, left + width, top + height


def read_inside(path: Path | str) -> bytes | None:
    """The bytes of a member or row; None for what is a file or a region of one."""
    file, part = split_address(path)
    ending = os.path.splitext(file)[1].lower()  # noqa: PTH122
    if not part or REGION.fullmatch(part):
        return None
    if ending == ARCHIVE:
        return _read_member(file, part)
    if ending == TABLE:
        return _read_row(file, part)
    raise DataError(f"{file} holds no images of its own, so there is no part {part!r} of it")


def list_members(file: Path | str) -> Members:
    """The files in a tar archive by name; links, folders and devices are none."""
    state = os.stat(file)  # noqa: PTH116
    with _lock:  # threads would index it one each
        return _index(os.fspath(file), state.st_size, state.st_mtime_ns)


def open_table(file: Path | str) -> Any:
    """An Arrow file as a table of pyarrow, mapped and not read."""
    state = os.stat(file)  # noqa: PTH116
    with _lock:
        return _map_table(os.fspath(file), state.st_size, state.st_mtime_ns)


def _read_member(file: str, name: str) -> bytes:
    place = list_members(file).get(normpath(name))
    if place is None:
        raise DataError(f"the archive {file} has no file {name!r}")
    start, size = place
    if size > MOST_BYTES:
        raise DataError(f"it has {size:,} bytes; at most {MOST_BYTES:,} are read")
    with open(file, "rb") as content:  # noqa: PTH123
        content.seek(start)
        return content.read(size)


def _read_row(file: str, part: str) -> bytes:
    column, _, number = part.rpartition("/")
    table = open_table(file)
    if column not in table.column_names or not number.isdecimal() or int(number) >= len(table):
        raise DataError(f"{file} has no row {part!r}")
    cell = table.column(column)[int(number)].as_py()
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(content, bytes):
        raise DataError("the row holds no image, only the name of a file elsewhere")
    return content


_lock = RLock()


@lru_cache(OPENED)
def _index(file: str, size: int, time: int) -> Members:
    """The members of an archive of that size and time."""
    try:
        with tarfile.open(file, "r:") as archive:
            found = [one for one in archive if one.isreg() and not one.issparse()]
    except (tarfile.TarError, OSError, ValueError, EOFError, OverflowError) as error:
        raise DataError(f"{file} is no tar archive that can be read: {error}") from None
    return {normpath(one.name): (one.offset_data, one.size) for one in found}


@lru_cache(OPENED)
def _map_table(file: str, size: int, time: int) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise DataError(
            f"{file} needs the package pyarrow, which is not here: pip install 'drpl[parquet]'"
        ) from None
    try:
        with pa.ipc.open_stream(pa.memory_map(file)) as reader:
            table = reader.read_all()
        table.validate(full=True)  # offsets in a damaged file could point anywhere
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{file} is no Arrow file that can be read: {reason}") from None
    return table
