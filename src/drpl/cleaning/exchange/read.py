"""Labels from a file of any format, and the decisions that they are in a cleaned folder."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from drpl.cleaning.exchange.labels import Label, name_none, read_rows
from drpl.cleaning.exchange.names import ImageNames
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import (
    Decision,
    check_signature,
    explain_action,
    name_action,
)
from drpl.errors import DataError, did_you_mean
from drpl.files import parse_xml, unquote_formula
from drpl.registry import FORMATS

INSIDE = ("metadata.csv", "train/metadata.csv", "labels.json", "annotations.xml")  # of a folder
MOST_NAMED = 3  # labels that a note names


@dataclass(frozen=True)
class LabelFile:
    """What a file of another tool says."""

    path: Path
    format: str  # a name from `drpl list formats`
    labels: list[Label]


class Matched(NamedTuple):
    """Labels as decisions in a cleaned folder; `time` and `who` are empty where nobody said."""

    decisions: list[Decision]
    notes: list[str]  # what could not be used


def read_labels(path: Path) -> LabelFile:
    """Read a file, or the file in a folder that has the labels; it is known by what is in it."""
    if path.is_dir():
        path = next((path / name for name in INSIDE if (path / name).is_file()), path)
    if not path.is_file():
        kind = f"none of {', '.join(INSIDE)} is in it" if path.is_dir() else "there is no such file"
        raise DataError(f"cannot read {path}: {kind}")
    if path.suffix.lower() not in READERS:
        raise DataError(
            f"{path} is no list of decisions: it ends with none of {', '.join(READERS)}"
        )
    with _explain(path):
        content = READERS[path.suffix.lower()](path.read_bytes())
        for name, entry in FORMATS.items():
            if (found := entry.load().parse(content)) is not None:
                return LabelFile(path, name, list(found))
    raise DataError(
        f"{path} is no list of decisions in any of the formats {', '.join(FORMATS)}; "
        "of a CSV file the columns path and label are wanted"
    )


def match_labels(cleaned: CleanedFolder, file: LabelFile, *, same: bool = False) -> Matched:
    """The decisions that the labels are, in their order, and what is not one and why.

    With `same` a file is refused that says of an image that it had another label: it was exported
    from another folder, whose images have the same names or numbers.
    """
    names, rows, none = ImageNames(cleaned), read_rows(cleaned), name_none(cleaned.classes)
    missing: list[str] = []
    unknown: Counter[str] = Counter()
    found: dict[tuple[int, str, str], list[Decision]] = {}
    for label in file.labels:
        number = names.find(label.name) if label.name else label.number
        if number is None or number not in rows:
            missing.append(label.name or ("" if label.number is None else f"image {label.number}"))
            continue
        given = rows[number].given_label
        if same and label.given and label.given != given:
            raise DataError(
                f"{file.path} belongs to another cleaned folder: the given label of "
                f"{label.name or f'image {number}'!r} is {label.given!r} there, and {given!r} in "
                f"{cleaned.folder}"
            )
        text = "" if label.label == none else label.label
        if not label.label and label.action != "outside":  # the file says nothing of it
            continue
        if text and text not in cleaned.classes:
            unknown[text] += 1
            continue
        row = rows[number]
        if label.action == "" and text == row.given_label:  # nobody decided
            continue
        check_signature(label.who, file.path)
        action = name_action(text, row, label.action or "")
        why = label.why or f"{explain_action(action, row)}; from {file.format}"
        who, time = label.who if label.who.strip() else "", _to_world_time(label.time)
        line = Decision(time, who, number, action, text, why)
        found.setdefault((number, who, time), []).append(line)
    kept = [lines[-1] for lines in found.values() if len({line.label for line in lines}) == 1]
    notes = _list_notes(cleaned, file, missing, unknown, len(found) - len(kept))
    return Matched(kept, notes)


def _list_notes(
    cleaned: CleanedFolder, file: LabelFile, missing: list[str], unknown: Counter[str], several: int
) -> list[str]:
    """What could not be used, and why."""
    notes = []
    if missing:
        notes.append(
            f"{len(missing):,} of {len(file.labels):,} labels in {file.path} are of images that "
            f"are not in {cleaned.folder}, or could be several there, first {missing[0]!r}"
        )
    if unknown:
        named = ", ".join(f"{name!r} ({count})" for name, count in unknown.most_common(MOST_NAMED))
        hint = did_you_mean(next(iter(unknown)), cleaned.classes)
        notes.append(f"{unknown.total():,} labels in {file.path} are no class: {named}; {hint}")
    if several:
        notes.append(f"{several:,} images in {file.path} have several labels of one person")
    return notes


def _to_world_time(text: str) -> str:
    """A time as our log has it, if it can be understood and is not so already."""
    if text.endswith("Z"):
        return text
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return text


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    """Turn whatever a broken file makes its reader raise into a sentence."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"cannot read {path}: {reason}") from error


def _parse_csv(data: bytes) -> list[dict[str, str]]:
    """Rows by the names of columns."""
    text = io.StringIO(data.decode("utf-8-sig"), newline="")
    head, *rows = [row for row in csv.reader(text, strict=True) if row] or [[]]
    if not head:
        raise DataError("it is empty")
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise DataError(f"row {number} has {len(row)} cells, not {len(head)}")
    return [dict(zip(head, map(unquote_formula, row), strict=True)) for row in rows]


READERS: Mapping[str, Callable[[bytes], Any]] = {
    ".csv": _parse_csv,
    ".json": json.loads,
    ".xml": parse_xml,
}
