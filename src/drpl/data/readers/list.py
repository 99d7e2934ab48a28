"""A list of image files: CSV or Parquet with the columns path, label and perhaps split."""

import csv
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from drpl.data.dataset import DatasetSplits
from drpl.data.decoding import explain
from drpl.data.readers.folder import Listed, from_files
from drpl.data.sources import ReadOptions
from drpl.data.wordnet import parse_whole
from drpl.errors import DataError, did_you_mean

COLUMNS = ("path", "label", "split")
SPLITS = ("train", "test", "val")
SHOWN = 3  # missing files that an error names


def read(path: Path, read_options: ReadOptions) -> DatasetSplits:
    """The files that a list names, relative to it; without `test`, the test part is `val`."""
    table = read_columns(path)
    wrong = sorted(set(table["split"]) - set(SPLITS))
    if wrong:
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


def _read_csv(path: Path) -> list[list[str]]:
    """Rows of texts, the head first."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _read_parquet(path: Path) -> list[list[str]]:
    """The same from a Parquet file."""
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ImportError:
        raise DataError(
            f"{path} needs the package pyarrow, which is not here; install it, or use CSV"
        ) from None
    except Exception as error:  # whatever the engine raises for a damaged file
        raise DataError(f"cannot read {path}: {explain(error)}") from error
    rows = table.astype(object).where(table.notna(), "").to_numpy().tolist()
    return [[str(cell) for cell in row] for row in [list(table.columns), *rows]]


ROW_READERS = {".csv": _read_csv, ".parquet": _read_parquet}


def read_rows(path: Path) -> list[list[str]]:
    """Rows of texts, the head first, of either kind of file."""
    return ROW_READERS[path.suffix.lower()](path)


def read_columns(path: Path) -> dict[str, list[str]]:
    """The list by columns, checked."""
    head, *body = read_rows(path) or [[]]
    head = [name.strip() for name in head]
    for name in head:
        if name not in COLUMNS or head.count(name) > 1:
            raise DataError(f"{path} has a column {name!r}; {did_you_mean(name, COLUMNS)}")
    missing = [name for name in COLUMNS[:2] if name not in head]
    if missing:
        raise DataError(f"{path} lacks the column {missing[0]!r}; wanted are {', '.join(COLUMNS)}")
    for number, row in enumerate(body, 1):
        if len(row) != len(head) or not all(cell.strip() for cell in row):
            raise DataError(f"{path}, row {number}: wanted is one value for each of {head}")
    if not body:
        raise DataError(f"{path} lists no images")
    table = {name: [row[k].strip() for row in body] for k, name in enumerate(head)}
    return {"split": ["train"] * len(body), **table}


def _order(labels: set[str]) -> tuple[str, ...]:
    """By number if all are numbers, else by the alphabet."""
    numbers = all(parse_whole(label) is not None for label in labels)
    return tuple(
        sorted(labels, key=lambda label: (parse_whole(label) or 0 if numbers else 0, label))
    )


def check_files(files: Sequence[Path], source: Path) -> None:
    """Raise if files that a list names are not there."""
    missing = [str(file) for file in files if not os.path.isfile(file)]  # noqa: PTH113  any text
    if missing:
        first = ", ".join(missing[:SHOWN])
        raise DataError(
            f"{len(missing)} of {len(files)} images that {source} lists are not there, "
            f"first {first}; mend the list or its place"
        )
