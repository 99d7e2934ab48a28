"""Hugging Face's ImageFolder: images with a metadata.csv or metadata.jsonl beside them.

The metadata name the images by `file_name`, from their own place on. Labels are a column of them
or, where none has a known name, the folders that the images are in.
"""

from dataclasses import replace
from pathlib import Path

from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import TEST_NAMES, Kind, LeftOut, list_images
from drpl.data.readers.list import LABEL_NAMES, PATH_NAMES, choose_column, read_list, read_table
from drpl.data.readers.rows import Rows, build, check_files
from drpl.data.sources import ReadOptions
from drpl.errors import DataError

NAMES = ("metadata.csv", "metadata.jsonl")
NOT_LISTED = Kind("image that the metadata do not name", "images that the metadata do not name")


def read(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """The images that the metadata name, in `root` or in its folders `train` and `test`."""
    left_out: LeftOut = {}
    every = Rows()
    for split in ("", "train", *TEST_NAMES):
        places = (root / split / name for name in NAMES)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            continue
        rows = _read_metadata(path, read_options)
        below = f"{split}/" if split else ""
        rows.paths = [f"{below}{name}" for name in rows.paths]
        if split:
            rows.splits = [split if split in ("train", "test") else "val"] * len(rows.paths)
        every = _concat(every, rows)
    known = set(every.paths)
    others = [name[1:] for name in list_images(root, "") if name[1:] not in known]
    if others:
        left_out[NOT_LISTED] = others
    every = check_files(every, root, root, read_options, left_out)
    return build(root, root, every, read_options, left_out)


def _read_metadata(path: Path, read_options: ReadOptions) -> Rows:
    """One file of metadata; without a column of labels the images' folders are these."""
    head, _ = read_table(path)
    place = choose_column(path, head, read_options.path_column, PATH_NAMES, "path")
    if read_options.label_column is None and not read_options.label_pattern:
        try:
            rest = [name for k, name in enumerate(head) if k != place]
            choose_column(path, rest, None, LABEL_NAMES, "label")
        except DataError:
            rows = read_list(path, replace(read_options, label_pattern="()"))
            if not all("/" in name for name in rows.paths):
                raise
            return replace(rows, labels=[name.split("/")[-2] for name in rows.paths])
    return read_list(path, read_options)


def _concat(first: Rows, second: Rows) -> Rows:
    """The rows of both, with the columns of either."""
    names = dict.fromkeys([*first.columns, *second.columns])
    parts = (first, second)
    return Rows(
        first.paths + second.paths,
        first.labels + second.labels,
        first.splits + second.splits,
        {
            name: [c for one in parts for c in one.columns.get(name, [""] * len(one.paths))]
            for name in names
        },
    )
