"""What is exchanged: images with what people decided on them, and labels as a file gives them.

A format is a module with two functions. `write(export, path)` writes an `Export`. `parse(content)`
takes what is in a file (the value of a JSON file, the rows of a CSV file, the root of an XML file)
and yields a `Label` for each that somebody gave an image; it returns None if the file is of another
format. Where a format has room for it, a label goes with what `describe` says of it, so that it
comes back as the same decision.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import ActiveDecisions, Decision, read_decisions
from drpl.data.decoding import open_file
from drpl.data.wordnet import parse_whole
from drpl.errors import DataError

NONE = "none of the classes"  # the label of an image that shows none of them


@dataclass(frozen=True)
class Image:
    """An image, what the networks say of its label, and what people decided."""

    number: int
    name: str
    file: Path | None
    given: str
    predicted: str  # what the networks suggest, `NONE` if that
    p_noisy: float
    confidence: float
    decisions: tuple[Decision, ...]  # everyone's; the last one holds

    def measure(self) -> tuple[int, int]:
        """Width and height in pixels, by the head of the file; zeros if it cannot be read."""
        try:
            if self.file is None:
                return 0, 0
            with open_file(self.file) as opened:
                return opened.size
        except (OSError, DataError):
            return 0, 0


@dataclass(frozen=True)
class Export:
    """What is written: images, the worst first, and the names of the classes."""

    cleaned: CleanedFolder
    images: Sequence[Image]
    none: str  # what an image of no class is labelled
    prefix: str | None = None  # address that other tools find the images below; None: their files

    @property
    def labels(self) -> list[str]:
        """Every label that an image may have."""
        return [*self.cleaned.classes, self.none]

    def describe(self, image: Image) -> list[dict[str, str]]:
        """Every decision on an image as texts; without one, its given label and no action."""
        if not image.decisions:
            return [{"label": image.given, **dict.fromkeys(("action", "who", "time", "why"), "")}]
        return [
            {
                "label": decision.label or self.none,
                **{name: getattr(decision, name) for name in ("action", "who", "time", "why")},
            }
            for decision in image.decisions
        ]

    def describe_once(self, image: Image) -> dict[str, str]:
        """The decision that holds; those of other people as one JSON text, for single labels."""
        *others, last = self.describe(image)
        return {**last, "others": json.dumps(others, ensure_ascii=False) if others else ""}


class Label(NamedTuple):
    """A label that a file gives an image."""

    name: str  # the image's path or address, or nothing
    number: int | None  # its id, used if it has no name
    label: str
    action: str | None = None  # empty: nobody decided, it is the given label; None: not said
    who: str = ""
    time: str = ""
    why: str = ""
    given: str = ""  # the label that the image had, where the file says so


def read_label(said: Mapping[str, Any], name: Any, label: Any = None) -> Label:
    """A label of an image with what is said of it, as `Export.describe` has it."""
    action, number = said.get("action"), _to_text(said.get("id"))
    return Label(
        _to_text(said.get("path")) or _to_text(name),
        parse_whole(number),
        _to_text(said.get("label") if label is None else label),
        None if action is None else _to_text(action),
        *(_to_text(said.get(key)) for key in ("who", "time", "why", "given_label")),
    )


def read_labels_once(said: Mapping[str, Any], name: Any, label: Any = None) -> Iterator[Label]:
    """The same where other people's decisions are one JSON text."""
    last = read_label(said, name, label)
    others = json.loads(_to_text(said.get("others")) or "[]")
    if not isinstance(others, list) or not all(isinstance(other, dict) for other in others):
        raise DataError(f"what other people decided on {last.name!r} is no list")
    yield from (read_label(other, last.name) for other in others)
    yield last


def build_export(
    cleaned: CleanedFolder, *, issues_only: bool = False, prefix: str | None = None
) -> Export:
    """All images of a cleaned folder, or those that are suspicious or decided."""
    active = ActiveDecisions(read_decisions(cleaned))
    none, names, rows = name_none(cleaned.classes), name_images(cleaned), read_rows(cleaned)
    outside = set(cleaned.issues.index[cleaned.issues["verdict"] == "outside"])
    listed = dict.fromkeys(cleaned.issues.index)
    others = cleaned.samples["p_noisy"].sort_values(ascending=False, kind="stable").index
    images = []
    for number in listed | dict.fromkeys(others):
        decisions = active.list_on(number)
        if issues_only and number not in listed and not decisions:
            continue
        row, file = rows[number], cleaned.image(number)
        images.append(
            Image(
                int(number),
                names[number],
                file if file and file.is_file() else None,
                row.given_label,
                none if number in outside else row.suggested_label,
                float(row.p_noisy),
                float(row.confidence),
                tuple(decisions),
            )
        )
    return Export(cleaned, images, none, prefix)


def read_rows(cleaned: CleanedFolder) -> dict[int, Any]:
    """What was found out about every image, as a review shows it, by id."""
    columns = ["given_label", "suggested_label", "p_noisy", "confidence"]
    tables = (cleaned.samples, cleaned.reviewable)  # the latter suggests another label
    return {row.Index: row for table in tables for row in table[columns].itertuples()}


def name_images(cleaned: CleanedFolder) -> dict[int, str]:
    """What other tools call the images: their paths, or images/ID.png where they have none."""
    paths = cleaned.samples["path"]
    return {int(i): path or f"images/{i}.png" for i, path in paths.items()}


def name_none(classes: Sequence[str]) -> str:
    """What an image of no class is labelled; no class is called so."""
    name = NONE
    while name in classes:
        name = f"({name})"
    return name


def _to_text(value: Any) -> str:
    """A value of a file as a text; nothing for what is no text or number."""
    text = str(value) if isinstance(value, str | int | float) else ""
    return text.encode("utf-8", "replace").decode()
