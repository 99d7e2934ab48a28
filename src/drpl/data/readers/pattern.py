"""A folder of images whose paths hold their labels, found by a regular expression."""

from dataclasses import replace
from pathlib import Path

from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import LeftOut, find_parts, list_images
from drpl.data.readers.rows import Rows, build
from drpl.data.sources import ReadOptions
from drpl.errors import DataError


def read(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """Every image below the folder whose path from there on the label pattern matches.

    The folders `train` and `test` are parts as elsewhere.
    """
    train, test, notes = find_parts(root)
    if train == root:
        notes = ()  # no folder is taken for a class here
    left_out: LeftOut = {}
    rows = Rows()
    for where, split in ((train, "train"), (test, "test")):
        if where is None:
            continue
        below = "" if where == root else f"{where.name}/"
        for path in list_images(where, "", left_out):
            rows.add(f"{below}{path[1:]}", "", split)
    if not rows.paths:
        raise DataError(f"there are no image files in {root}")
    data = build(root, root, rows, read_options, left_out)
    return replace(data, notes=notes + data.notes)
