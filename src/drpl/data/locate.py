"""Where the files of named data sets are, and which image files a user's paths stand for."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from filelock import FileLock

from drpl.data.download import Archive, obtain
from drpl.data.readers.folder import list_images
from drpl.data.readers.list import ROW_READERS, read_rows
from drpl.data.sources import ReadOptions
from drpl.errors import DataError
from drpl.files import explain_write_errors


def locate(
    read_options: ReadOptions,
    name: str,
    places: tuple[str, ...],
    sign: str,
    archive: Archive | None = None,
) -> Path:
    """The first of `places` in the data folder (`.` is the folder itself) that has `sign`."""
    home = read_options.data_dir or Path(os.environ.get("DRPL_DATA") or "data")

    def find() -> Path | None:
        return next((home / place for place in places if any((home / place).glob(sign))), None)

    found = find()
    if not found and read_options.download and archive:
        lock = FileLock(home / f".{archive.name}.lock")
        with explain_write_errors(home):
            home.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            if not find():  # another process may have fetched it meanwhile
                obtain(archive, home)
        finally:
            lock.release()
        found = find()
    if found:
        return found
    way = "get it from its makers and put it there" if read_options.download else "put it there"
    fetch = ", or fetch it with --download" if archive else ""
    raise DataError(
        f"{name} wants {places[0]}/{sign} in the folder {home}, which has none; {way}, or "
        f"name another folder with --data-dir or DRPL_DATA{fetch}"
    )


def find_images(paths: Iterable[Path]) -> Iterator[str]:
    """Every image file that the paths stand for, in their order.

    A folder stands for the images in it and in its sub-folders, a CSV or Parquet list for what its
    column `path` names, from the list's place on. Whether those are there is seen when they are
    read.
    """
    for path in paths:
        if path.is_dir():
            found = list(list_images(path, str(path)))
            if not found:
                raise DataError(f"there are no image files in {path}")
            yield from found
        elif not path.is_file():
            raise DataError(f"there is no image file {path}")
        elif path.suffix.lower() in ROW_READERS:
            yield from _read_paths(path)
        else:
            yield str(path)


def _read_paths(path: Path) -> Iterator[str]:
    """The files of a list's column `path`."""
    head, *rows = read_rows(path) or [[]]
    names = [name.strip() for name in head]
    if "path" not in names:
        raise DataError(f"{path} lacks the column 'path', which says where the images are")
    column = names.index("path")
    for number, row in enumerate(rows, 1):
        if len(row) <= column or not row[column].strip():
            raise DataError(f"{path}, row {number}: the path is missing")
        yield os.path.join(path.parent, row[column].strip())  # noqa: PTH118  a million Paths take long
