"""A list of image files: CSV, TSV, JSON lines or Parquet, with any columns.

One column says where the images are, from the list's place on, and one what they are labelled;
both are known by common names or by `path_column` and `label_column`. A column `split` says which
part an image belongs to. All others are carried through to the tables that are written.
"""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drpl.data.address import is_there
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import LeftOut, list_images
from drpl.data.readers.rows import Rows, build, check_files
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError, did_you_mean
from drpl.files import make_printable, unquote_formula

PATH_NAMES = (
    *("path", "file_name", "filename", "file", "filepath", "file_path", "image_path", "image"),
    *("img_path", "image_file", "image_name", "img", "img_name", "relative_path", "id_code"),
)
LABEL_NAMES = (
    *("label", "labels", "class", "class_name", "classname", "category", "target", "label_name"),
    *("classes", "categories", "tags", "tag", "species", "class_id", "y"),
)
SPLIT = "split"
SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl")
DELIMITERS = (";", "\t")  # of a CSV whose head has no comma
LONGEST = 16 * 2**20  # characters of a line of JSON
MOST_SHOWN = 10  # columns that an error names

Table = tuple[list[str], list[list[str]]]  # head and rows


def read(path: Path, read_options: ReadOptions) -> DatasetSplits:
    """The images that a list names."""
    left_out: LeftOut = {}
    rows = read_list(path, read_options)
    rows = check_files(rows, path.parent, path, read_options, left_out)
    return build(path, path.parent, rows, read_options, left_out)


def read_list(path: Path, read_options: ReadOptions | None = None) -> Rows:
    """The rows of a list, with paths as they begin at its place."""
    options = read_options or ReadOptions()
    head, body = read_table(path)
    place = choose_column(path, head, options.path_column, PATH_NAMES, "path")
    others = [k for k in range(len(head)) if k != place]
    label = None
    if not options.label_pattern:
        rest = [head[k] for k in others]
        chosen = choose_column(path, rest, options.label_column, LABEL_NAMES, "label")
        label = others.pop(chosen)
    split = next((k for k in others if head[k].lower() == SPLIT), None)
    if not body:
        raise DataError(f"{path} lists no images")
    for number, row in enumerate(body, 1):
        if len(row) != len(head):
            raise DataError(f"{path}, row {number}: wanted is one value for each of {head}")
        if not row[place]:
            raise DataError(f"{path}, row {number}: the path is missing")
        if split is not None and not row[split]:
            raise DataError(f"{path}, row {number}: the split is missing")
    return Rows(
        _find_below(path, [row[place] for row in body]),
        ["" if label is None else row[label] for row in body],
        ["train" if split is None else row[split] for row in body],
        {head[k]: [row[k] for row in body] for k in others if k != split},
    )


def choose_column(
    path: Path, head: Sequence[str], asked: str | None, known: Sequence[str], what: str
) -> int:
    """The number of the column that was asked for, or else that has a known name."""
    if asked is not None:
        if asked not in head:
            raise DataError(f"{path} has no column {asked!r}; {did_you_mean(asked, head)}")
        return head.index(asked)
    plain = [name.strip().lower().replace(" ", "_").replace("-", "_") for name in head]
    for name in known:
        if name in plain:
            return plain.index(name)
    has = ", ".join(map(make_printable, head[:MOST_SHOWN])) or "none"
    raise DataError(
        f"{path} has no column with a known name for the {what} (its columns: {has}); "
        f"name it with --{what}-column"
    )


def read_table(path: Path) -> Table:
    """Head and rows of texts."""
    with explain_data_errors(path):
        suffix = path.suffix.lower()
        if suffix == ".parquet":
            head, body = _read_parquet(path)
        elif suffix == ".jsonl":
            head, body = _read_json_lines(path)
        else:
            head, body = _read_csv(path, "\t" if suffix == ".tsv" else None)
        for name in head:
            if head.count(name) > 1:
                raise DataError(f"{path} has two columns {name!r}; rename one of them")
        return head, body


def _read_csv(path: Path, delimiter: str | None) -> Table:
    """A comma lies between the cells, or what is in the head in place of one."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        if delimiter is None:
            first = file.readline()
            delimiter = next((d for d in DELIMITERS if d in first and "," not in first), ",")
            file.seek(0)
        rows = [row for row in csv.reader(file, strict=True, delimiter=delimiter) if row]
    head, *body = [[unquote_formula(cell.strip()) for cell in row] for row in rows] or [[]]
    return head, body


def _read_json_lines(path: Path) -> Table:
    """An object on each line; its keys are the columns."""
    found: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        number = 0
        while line := file.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                raise DataError(f"{path}, line {number} is longer than {LONGEST:,} signs")
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number} is no JSON: {error}") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: wanted is an object, as in {{...}}")
            found.append(row)
    head = list(dict.fromkeys(name for row in found for name in row))
    return head, [[to_text(row.get(name)) for name in head] for row in found]


def _read_parquet(path: Path) -> Table:
    import pandas as pd

    try:
        table = pd.read_parquet(path, dtype_backend="numpy_nullable")  # or whole numbers get a dot
    except ImportError:
        raise DataError(
            f"{path} needs the package pyarrow, which is not here: pip install 'drpl[parquet]'"
        ) from None
    cells = [[to_text(cell) for cell in table[name]] for name in table.columns]
    return list(map(str, table.columns)), [list(row) for row in zip(*cells, strict=True)]


def to_text(cell: Any) -> str:
    """A value of JSON or Parquet as the text that a CSV would hold; nothing where it is missing."""
    if hasattr(cell, "tolist"):  # numpy's
        cell = cell.tolist()
    if cell is None or type(cell).__name__ == "NAType" or cell != cell:  # NaN
        return ""
    if isinstance(cell, bytes) or (isinstance(cell, dict) and "bytes" in cell):
        raise DataError("a column holds whole images, not where they are; save them as files")
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, list | dict) else str(cell)


def _find_below(source: Path, paths: list[str]) -> list[str]:
    """The paths, or those below the one folder beside the list that has the first of them.

    Those of a list that was written on Windows are there by another sign between folders.
    """
    if is_there(source.parent / paths[0]):
        return paths
    if "\\" in paths[0]:
        return _find_below(source, [path.replace("\\", "/") for path in paths])
    homes = [
        place.name
        for place in sorted(source.parent.iterdir())
        if place.is_dir() and is_there(place / paths[0])
    ]
    if len(homes) != 1:
        return paths  # whoever reads them says that they are not there
    return [os.path.join(homes[0], path) for path in paths]  # noqa: PTH118


def find_images(
    paths: Iterable[Path], left_out: LeftOut | None = None, path_column: str | None = None
) -> Iterator[str]:
    """Every image file that the paths stand for, in their order; the rest goes to `left_out`.

    A folder stands for the images in it and in its sub-folders, a list for what its column of
    paths names, from the list's place on. Whether those are there is seen when they are read.
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
            yield from _read_paths(path, path_column)
        else:
            yield str(path)


def _read_paths(path: Path, path_column: str | None) -> Iterator[str]:
    """The files that a list names."""
    head, body = read_table(path)
    column = choose_column(path, head, path_column, PATH_NAMES, "path")
    for number, row in enumerate(body, 1):
        if len(row) <= column or not row[column]:
            raise DataError(f"{path}, row {number}: the path is missing")
        yield os.path.join(path.parent, row[column])  # noqa: PTH118  a million Paths take long
