"""A list of image files: CSV or Parquet with the columns path, label and perhaps split."""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import LeftOut, Listed, from_files, list_images
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.data.wordnet import parse_whole
from drpl.errors import DataError, did_you_mean
from drpl.files import unquote_formula

COLUMNS = ("path", "label", "split")
SUFFIXES = (".csv", ".parquet")
SPLITS = ("train", "test", "val")
SHOWN = 3  # missing files that an error names


def read(path: Path, read_options: ReadOptions) -> DatasetSplits:
    """The files that a list names, relative to it; without `test`, the test part is `val`."""
    table = read_columns(path)
    if wrong := sorted(set(table["split"]) - set(SPLITS)):
        raise DataError(f"{path}: split {wrong[0]!r} is none of {', '.join(SPLITS)}")
    check_files([path.parent / name for name in table["path"]], path)
    names = _order(set(table["label"]))
    position = {name: number for number, name in enumerate(names)}

    def part(split: str) -> Listed:
        index = [i for i, value in enumerate(table["split"]) if value == split]
        labels = torch.tensor([position[table["label"][i]] for i in index], dtype=torch.int64)
        return [table["path"][i] for i in index], labels

    train, test, val = (part(split) for split in SPLITS)
    if not train[0]:
        raise DataError(f"{path} lists no image for training")
    second = test if test[0] else val
    data = from_files(path.stem, path.parent, names, train, second, read_options)
    if test[0] and val[0]:
        note = f"{path} lists test and val images; the {len(val[0])} of val are not used"
        data = replace(data, notes=(*data.notes, note))
    return data


def read_rows(path: Path) -> list[list[str]]:
    """Rows of texts, the head first, of a CSV or Parquet file."""
    with explain_data_errors(path):
        if path.suffix.lower() == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file, strict=True) if row]
            return [[unquote_formula(cell.strip()) for cell in row] for row in rows] or [[]]
        import pandas as pd

        try:
            table = pd.read_parquet(path)
        except ImportError:
            raise DataError(
                f"{path} needs the package pyarrow, which is not here; install it, or use CSV"
            ) from None
    rows = table.astype(object).where(table.notna(), "").to_numpy().tolist()
    return [[str(cell).strip() for cell in row] for row in [list(table.columns), *rows]]


def read_columns(path: Path) -> dict[str, list[str]]:
    """The list by columns, checked."""
    head, *body = read_rows(path)
    for name in head:
        if name not in COLUMNS or head.count(name) > 1:
            raise DataError(f"{path} has a column {name!r}; {did_you_mean(name, COLUMNS)}")
    if missing := [name for name in COLUMNS[:2] if name not in head]:
        raise DataError(f"{path} lacks the column {missing[0]!r}; wanted are {', '.join(COLUMNS)}")
    for number, row in enumerate(body, 1):
        if len(row) != len(head) or not all(row):
            raise DataError(f"{path}, row {number}: wanted is one value for each of {head}")
    if not body:
        raise DataError(f"{path} lists no images")
    table = {name: [row[k] for row in body] for k, name in enumerate(head)}
    return {"split": ["train"] * len(body), **table}


def _order(labels: set[str]) -> tuple[str, ...]:
    """By number if all are numbers, else by the alphabet."""
    numbers = all(parse_whole(label) is not None for label in labels)
    return tuple(sorted(labels, key=lambda label: (int(label) if numbers else 0, label)))


def check_files(files: Sequence[Path], source: Path) -> None:
    """Raise if files that a list names are not there."""
    if missing := [str(file) for file in files if not os.path.isfile(file)]:  # noqa: PTH113
        raise DataError(
            f"{len(missing)} of {len(files)} images that {source} lists are not there, first "
            f"{', '.join(missing[:SHOWN])}; mend the list or its place"
        )


def find_images(paths: Iterable[Path], left_out: LeftOut | None = None) -> Iterator[str]:
    """Every image file that the paths stand for, in their order; the rest goes to `left_out`.

    A folder stands for the images in it and in its sub-folders, a CSV or Parquet list for what its
    column `path` names, from the list's place on. Whether those are there is seen when they are
    read.
    """
    for path in paths:
        if path.is_dir():
            found = list(list_images(path, str(path), left_out))
            if not found:
                raise DataError(f"there are no image files in {path}")
            yield from found
        elif not path.is_file():
            raise DataError(f"there is no image file {path}")
        elif path.suffix.lower() in SUFFIXES:
            yield from _read_paths(path)
        else:
            yield str(path)


def _read_paths(path: Path) -> Iterator[str]:
    """The files of a list's column `path`."""
    head, *rows = read_rows(path)
    if "path" not in head:
        raise DataError(f"{path} lacks the column 'path', which says where the images are")
    column = head.index("path")
    for number, row in enumerate(rows, 1):
        if len(row) <= column or not row[column]:
            raise DataError(f"{path}, row {number}: the path is missing")
        yield os.path.join(path.parent, row[column])  # noqa: PTH118  a million Paths take long
