"""Rows of a table of images, from whatever file they were read, as a data set.

A row says where an image is, what it is labelled, which part it belongs to, and whatever else its
file said of it, which is carried through to the tables that are written.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from drpl.data.address import is_there
from drpl.data.dataset import DatasetSplits, select_columns
from drpl.data.readers.folder import Kind, LeftOut, Listed, describe_left_out, from_files
from drpl.data.sources import ReadOptions
from drpl.data.wordnet import parse_whole
from drpl.errors import ConfigError, DataError, did_you_mean

SPLITS = ("train", "test", "val")
OTHER_SPLITS = {
    "training": "train",
    "testing": "test",
    **dict.fromkeys(("valid", "validation"), "val"),
}
SEPARATORS = (";", "|", ",")  # that are looked for between labels
JSON = "json"  # in place of a separator: cells are lists in JSON
# Names of our own tables; a column that has one of them is carried as `list_NAME`.
RESERVED = {
    *("id", "path", "label", "split", "given_label", "suggested_label", "true_label", "loss"),
    *("p_noisy", "p_low", "p_high", "flagged", "confidence", "true", "wrong", "in_distribution"),
    *("verdict", "outlier_score", "near_given", "near_suggested", "group", "strangeness"),
    *("labels", "suggested_labels", "kind", "p_wrong", "score"),
}
NO_LABEL = Kind("row without a label", "rows without a label")
NOT_CHOSEN = Kind("image of a class that was not chosen", "images of classes that were not chosen")
NOT_THERE = Kind("image that is listed but not there", "images that are listed but not there")
NO_MATCH = Kind(
    "image whose path the label pattern does not match",
    "images whose paths the label pattern does not match",
)
SHOWN = 3  # missing files that an error names

Labels = Sequence[tuple[str, ...]]  # of each row: none, one or several


@dataclass
class Rows:
    """What a file says of each image, by columns."""

    paths: list[str] = field(default_factory=list)  # from the data set's root on
    labels: list[str] = field(default_factory=list)  # nothing where there is none
    splits: list[str] = field(default_factory=list)
    columns: dict[str, list[str]] = field(default_factory=dict)

    def add(self, path: str, label: str, split: str = "train", **cells: object) -> None:
        """One row; every row has the same other cells."""
        self.paths.append(path)
        self.labels.append(label)
        self.splits.append(split)
        for name, value in cells.items():
            self.columns.setdefault(name, []).append(str(value))

    def select(self, index: Sequence[int]) -> "Rows":
        """The rows at `index`."""
        paths, labels, splits = (
            [cells[i] for i in index] for cells in (self.paths, self.labels, self.splits)
        )
        columns = {name: list(cells) for name, cells in select_columns(self.columns, index).items()}
        return Rows(paths, labels, splits, columns)

    def drop(self, keep: Callable[[int], bool], left_out: LeftOut, kind: Kind) -> "Rows":
        """The rows that are to be kept; the others go to `left_out`."""
        kept = [i for i in range(len(self.paths)) if keep(i)]
        if len(kept) == len(self.paths):
            return self
        stay = set(kept)
        gone = [path for i, path in enumerate(self.paths) if i not in stay]
        left_out.setdefault(kind, []).extend(gone)
        return self.select(kept)


def build(
    source: Path, root: Path, rows: Rows, read_options: ReadOptions, left_out: LeftOut
) -> DatasetSplits:
    """The data set of a source's rows, whose paths begin at `root`; without `test` it is `val`.

    What is not read goes to `left_out`, and from there into the data's notes.
    """
    if not rows.paths:
        raise DataError(f"{source} lists no images")
    rows, labels, separator = choose_rows(source, rows, read_options, left_out)
    rows.splits = [OTHER_SPLITS.get(split.lower(), split.lower()) for split in rows.splits]
    if wrong := sorted(set(rows.splits) - set(SPLITS)):
        raise DataError(f"{source}: split {wrong[0]!r} is none of {', '.join(SPLITS)}")
    classes = _order({name for names in labels for name in names})
    position = {name: number for number, name in enumerate(classes)}

    def part(split: str) -> Listed:
        index = [i for i, value in enumerate(rows.splits) if value == split]
        first = [position[labels[i][0]] if labels[i] else 0 for i in index]
        tags = None
        if separator:
            tags = torch.zeros(len(index), len(classes), dtype=torch.bool)
            for k, i in enumerate(index):
                tags[k, [position[name] for name in labels[i]]] = True
        columns = {name_column(name): cells for name, cells in rows.columns.items()}
        return Listed(
            [rows.paths[i] for i in index],
            torch.tensor(first, dtype=torch.int64),
            select_columns(columns, index),
            tags,
        )

    train, test, val = (part(split) for split in SPLITS)
    if not train.names:
        raise DataError(f"{source} lists no image for training")
    held_out = test if test.names else val
    name = source.resolve().name if source.is_dir() else source.stem
    data = from_files(name, root, classes, train, held_out, read_options)
    notes = data.notes
    if separator:
        between = "as JSON lists" if separator == JSON else f"with {separator!r} between them"
        notes += (f"{source} gives images several labels each, {between}",)
    if test.names and val.names:
        notes += (f"{source} lists test and val images; the {len(val.names)} of val are not used",)
    return replace(data, notes=(*notes, *describe_left_out(left_out)))


def choose_rows(
    source: Path, rows: Rows, read_options: ReadOptions, left_out: LeftOut
) -> tuple[Rows, Labels, str]:
    """The rows that are read, the labels of each, and what is between several labels of one."""
    if read_options.label_pattern:
        rows = label_by_pattern(rows, read_options.label_pattern, left_out)
    labels, separator = split_labels(rows.labels, read_options.label_separator)
    if not separator:
        rows = rows.drop(lambda i: rows.labels[i] != "", left_out, NO_LABEL)
        labels = [(label,) for label in rows.labels]
    if wanted := set(read_options.classes):
        known = {name for names in labels for name in names}
        for name in read_options.classes:
            if name not in known:
                raise DataError(f"no class is named {name!r}; {did_you_mean(name, sorted(known))}")
        if separator:
            labels = [tuple(name for name in names if name in wanted) for names in labels]
        else:
            before = labels
            rows = rows.drop(lambda i: before[i][0] in wanted, left_out, NOT_CHOSEN)
            labels = [(label,) for label in rows.labels]
    if not rows.paths:
        raise DataError(f"{source}: nothing is left; {'; '.join(describe_left_out(left_out))}")
    return rows, labels, separator


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A label pattern, which has a group `label`, or one group that is the label."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"the label pattern {pattern!r} is wrong: {error}") from None
    if "label" not in compiled.groupindex and compiled.groups != 1:
        raise ConfigError(
            f"the label pattern {pattern!r} needs a group for the label, as in (?P<label>[a-z]+)"
        )
    return compiled


def label_by_pattern(rows: Rows, pattern: str, left_out: LeftOut) -> Rows:
    """The rows with what a pattern finds in their paths as labels; without where it finds none."""
    compiled = compile_pattern(pattern)
    group = "label" if "label" in compiled.groupindex else 1
    found = [compiled.search(Path(path).as_posix()) for path in rows.paths]
    rows = replace(rows, labels=[(one[group] or "") if one else "" for one in found])
    return rows.drop(lambda i: rows.labels[i] != "", left_out, NO_MATCH)


def split_labels(cells: Sequence[str], separator: str | None) -> tuple[Labels, str]:
    """The labels of each cell, and what is between them; nothing where each cell is one label.

    By default a cell is taken apart if it is a list in JSON, or by the first separator that leaves
    fewer labels than there are different cells: names that hold such a sign themselves do not.
    """
    if separator is None:
        separator = _guess_separator(cells)
    if separator == JSON:
        return [_parse_list(cell) for cell in cells], separator
    if separator:
        return [_take_apart(cell, separator) for cell in cells], separator
    return [(cell,) for cell in cells], ""


def _guess_separator(cells: Sequence[str]) -> str:
    different = {cell for cell in cells if cell}
    if different and all(cell.startswith("[") and cell.endswith("]") for cell in different):
        return JSON
    for separator in SEPARATORS:
        if any(separator in cell for cell in different):
            names = {name for cell in different for name in _take_apart(cell, separator)}
            if len(names) < len(different):
                return separator
    return ""


def _take_apart(cell: str, separator: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in cell.split(separator) if (name := part.strip())))


def _parse_list(cell: str) -> tuple[str, ...]:
    try:
        names = json.loads(cell or "[]")
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or any(isinstance(name, dict | list) for name in names):
        raise DataError(f'labels should be a list in JSON, as in ["a", "b"]; got {cell[:80]!r}')
    return tuple(dict.fromkeys(str(name).strip() for name in names))


def name_column(name: str) -> str:
    """What a column is called in the tables that are written."""
    return f"list_{name}" if name in RESERVED else name


def _order(labels: set[str]) -> tuple[str, ...]:
    """By number if all are numbers, else by the alphabet."""
    numbers = all(parse_whole(label) is not None for label in labels)
    return tuple(sorted(labels, key=lambda label: (int(label) if numbers else 0, label)))


def check_files(
    rows: Rows, root: Path, source: Path, read_options: ReadOptions, left_out: LeftOut
) -> Rows:
    """The rows whose files are there; an error for others, unless they may be left out."""
    there = [is_there(os.path.join(root, path)) for path in rows.paths]  # noqa: PTH118
    if all(there):
        return rows
    missing = [path for path, found in zip(rows.paths, there, strict=True) if not found]
    if not read_options.skip_broken or not any(there):
        named = ", ".join(str(root / path) for path in missing[:SHOWN])
        remedy = "" if read_options.skip_broken else ", or leave them out with --skip-broken"
        raise DataError(
            f"{len(missing)} of {len(there)} images that {source} lists are not there, first "
            f"{named}; mend the list or its place{remedy}"
        )
    return rows.drop(there.__getitem__, left_out, NOT_THERE)
