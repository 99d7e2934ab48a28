"""Image files as a user names them: one by one, by folders, or by lists."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from drpl.data.readers.folder import images_below
from drpl.data.readers.list import read_csv, read_parquet
from drpl.errors import DataError

LISTS = {".csv": read_csv, ".parquet": read_parquet}


def image_files(paths: Iterable[Path]) -> Iterator[str]:
    """Every image file that the paths stand for, in their order.

    A folder stands for the images in it and in its sub-folders, a CSV or Parquet list for what its
    column `path` names, from the list's place on. Whether those are there is seen when they are
    read.
    """
    for path in paths:
        if path.is_dir():
            found = list(images_below(path, str(path)))
            if not found:
                raise DataError(f"there are no image files in {path}")
            yield from found
        elif not path.is_file():
            raise DataError(f"there is no image file {path}")
        elif path.suffix.lower() in LISTS:
            yield from named_in(path)
        else:
            yield str(path)


def named_in(path: Path) -> Iterator[str]:
    """The files of a list's column `path`."""
    head, *rows = LISTS[path.suffix.lower()](path) or [[]]
    names = [name.strip() for name in head]
    if "path" not in names:
        raise DataError(f"{path} lacks the column 'path', which says where the images are")
    column = names.index("path")
    for number, row in enumerate(rows, 1):
        if len(row) <= column or not row[column].strip():
            raise DataError(f"{path}, row {number}: the path is missing")
        yield os.path.join(path.parent, row[column].strip())  # noqa: PTH118  a million Paths take long
