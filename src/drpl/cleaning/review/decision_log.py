"""What people decided: `decisions.csv`, to which lines are only ever added."""

import csv
import io
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
from filelock import FileLock, Timeout

from drpl.cleaning.folder import CleanedFolder, format_csv, read_clock
from drpl.data.wordnet import parse_whole
from drpl.errors import DataError, RunError, StorageError, did_you_mean
from drpl.files import explain_write_errors, unquote_formula, write_atomic

FILE = "decisions.csv"
MODEL = "model"  # who changed what nobody decided on, in the audit; no person may be called so
ACTIONS = ("accept", "keep", "relabel", "outside", "undo")
IDENTITY = "identity"  # last column of what a page without server saves: which data it was made of
TOGETHER = re.compile(r"for \d+ (alike )?at once")  # ends the reason of a decision on several


class Decision(NamedTuple):
    """One line of the file."""

    time: str
    who: str
    id: int
    action: str
    label: str  # the class that the image now has; none where it is dropped or a decision undone
    why: str


class ActiveDecisions:
    """The decisions that hold.

    Everyone has one on an image, the last that was not undone. Of several people's, the latest
    holds; while they give different labels the image is disputed.
    """

    def __init__(self, log: Iterable[Decision] = ()) -> None:
        self.count = 0
        # of each image and person, with their places in the log
        self.stacks: dict[int, dict[str, list[tuple[int, Decision]]]] = {}
        for decision in log:
            self.add(decision)

    def add(self, decision: Decision) -> None:
        """Follow the log by one line."""
        people = self.stacks.setdefault(decision.id, {})
        if decision.action != "undo":
            people.setdefault(decision.who, []).append((self.count, decision))
        elif people:
            # Before version 0.3 one could take back what someone else had decided.
            who = (
                decision.who if decision.who in people else max(people, key=lambda p: people[p][-1])
            )
            people[who].pop()
            if not people[who]:
                del people[who]
        self.count += 1

    def by_image(self) -> dict[int, Decision]:
        """The decision on each image that has one, the oldest first."""
        everyone = filter(None, self.stacks.values())
        latest = (max(stack[-1] for stack in people.values()) for people in everyone)
        return {decision.id: decision for _, decision in sorted(latest)}

    def by_person(self) -> dict[str, dict[int, Decision]]:
        """Everyone's own decisions that hold, by name and image."""
        table: dict[str, dict[int, Decision]] = {}
        for people in self.stacks.values():
            for who, stack in people.items():
                table.setdefault(who, {})[stack[-1][1].id] = stack[-1][1]
        return table

    def list_on(self, number: int) -> list[Decision]:
        """Everyone's decision on an image; the last one holds."""
        people = self.stacks.get(number, {})
        return [decision for _, decision in sorted(stack[-1] for stack in people.values())]

    def find_disputed(self) -> list[int]:
        """Images that people gave different labels, or dropped and did not."""
        return [
            number
            for number, people in self.stacks.items()
            if len({stack[-1][1].label for stack in people.values()}) > 1
        ]

    def find_own(self, number: int, who: str) -> Decision | None:
        """What someone decided on an image."""
        stack = self.stacks.get(number, {}).get(who)
        return stack[-1][1] if stack else None


class DecisionLog:
    """`decisions.csv`, opened to add to it; one process at a time may."""

    def __init__(self, cleaned: CleanedFolder) -> None:
        self.cleaned = cleaned
        self.path = cleaned.folder / FILE
        self.lock = FileLock(f"{self.path}.lock", timeout=0, thread_local=False)
        self.turn = threading.RLock()  # one line at a time

    def __enter__(self) -> Self:
        with explain_write_errors(self.path), ExitStack() as opened:
            try:
                opened.enter_context(self.lock)
            except Timeout:
                raise StorageError(
                    f"{self.cleaned.folder} is being reviewed by another `drpl review`; "
                    "close that one first"
                ) from None
            self.lines = read_decisions(self.cleaned)
            self.active = ActiveDecisions(self.lines)
            self._mend()
            self.file = opened.enter_context(self.path.open("r+b", buffering=0))
            self.end = self.file.seek(0, os.SEEK_END)
            self.opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def add(self, *decisions: Decision) -> None:
        """Write decisions; when this returns they are on the disk."""
        line = format_csv(decisions).encode()
        with self.turn, explain_write_errors(self.path):
            try:
                self.file.seek(self.end)
                written = 0
                while written < len(line):
                    written += self.file.write(line[written:])
                os.fsync(self.file.fileno())
            except OSError:
                self.file.truncate(self.end)  # half a line must not precede the next one
                raise
            self.end += len(line)
            for decision in decisions:
                self.lines.append(decision)
                self.active.add(decision)

    def undo(self, who: str, *numbers: int) -> None:
        """Take back someone's last decision on images; the one before it holds again."""
        with self.turn:
            lines = []
            for number in dict.fromkeys(numbers):
                own = self.active.find_own(number, who)
                if own is None:
                    raise DataError(f"there is no decision on image {number} to take back by {who}")
                why = f"took back: {own.action}"
                lines.append(Decision(read_clock(), who, number, "undo", "", why))
            self.add(*lines)

    def _mend(self) -> None:
        """Cut off a line that was torn by a crash; begin the file if there is none."""
        data = self.path.read_bytes() if self.path.exists() else b""
        kept = measure_whole_lines(data)
        if kept < len(data):  # not thrown away: someone may have edited the file by hand
            write_atomic(self.path.with_name("decisions.torn"), data[kept:])
        if kept < len(data) or not data:
            write_atomic(self.path, data[:kept] or format_csv([Decision._fields]))


def make_decision(
    cleaned: CleanedFolder,
    number: int,
    action: str,
    label: str,
    who: str,
    *,
    time: str = "",
    note: str = "",
) -> Decision:
    """A decision on an image, checked, with the label that it gives and the reason.

    A note is added to the reason if it says that several images were decided on together.
    """
    if action not in ACTIONS:
        raise DataError(f"unknown action {action!r}; {did_you_mean(action, ACTIONS)}")
    if number not in cleaned.rows:
        raise DataError(f"there is no image {number} in {cleaned.folder}")
    issue = cleaned.rows[number]
    if action == "relabel" and label not in cleaned.classes:
        raise DataError(f"{label!r} is not a class; {did_you_mean(label, cleaned.classes)}")
    label = {"accept": issue.suggested_label, "keep": issue.given_label, "relabel": label}.get(
        action, ""
    )
    if label == issue.given_label:
        action = "keep"
    why = "took back" if action == "undo" else explain_action(action, issue)
    if TOGETHER.fullmatch(note):
        why = f"{why}; {note}"
    return Decision(time or read_clock(), who, number, action, label, why)


def explain_action(action: str, row: Any) -> str:
    """The reason that is kept with a decision."""
    text = {
        "accept": "accepted suggestion",
        "keep": "kept the given label",
        "relabel": "chose another class",
        "outside": "none of the classes",
    }[action]
    return f"{text}, p_noisy {row.p_noisy:.2f}, confidence {row.confidence:.2f}"


def name_action(label: str, row: pd.Series, said: str = "") -> str:
    """What a decision for that label (none: drop the image) is called; as `said`, if that fits."""
    fits = {
        "outside": not label,
        "keep": label == row.given_label,
        "accept": label == row.suggested_label,
        "relabel": label not in ("", row.given_label),
    }
    return said if fits.get(said) else next(name for name, true in fits.items() if true)


def read_decisions(cleaned: CleanedFolder) -> list[Decision]:
    """Every whole line of `decisions.csv`; none if there is no such file."""
    path = cleaned.folder / FILE
    if not path.exists():
        return []
    lines = list(parse_file(path))
    for decision in lines:
        if decision.id not in cleaned.samples.index:
            raise RunError(f"{path}: samples.csv has no image {decision.id}")
        if decision.label and decision.label not in cleaned.classes:
            raise RunError(f"{path}: {decision.label!r} is not a class of data.json")
        if decision.action in ("accept", "relabel") and not decision.label:
            raise RunError(f"{path}: the decision on image {decision.id} lacks its label")
    return lines


def parse_decisions(cleaned: CleanedFolder, path: Path, who: str) -> list[Decision]:
    """The decisions of a file that was saved by a page, or by a review of the same images.

    `who` signs what nobody signed. Images have numbers only, so a file that was made of other data
    is refused: by what it says of them, by the samples beside it, or by labels that are others
    here. Of the same data another class may be suggested here; the label that was given then holds.
    """
    beside = _read_identity(cleaned, path)
    lines = []
    for line, said in _read_lines(path, repair=False):
        if said not in ("", cleaned.identity):
            raise DataError(
                f"{path} was saved by a page of other images, or other labels; take it in where "
                "that page was made"
            )
        check_signature(line.who, path)
        signed = line._replace(who=line.who.strip() or who)
        if cleaned.identity in (said, beside):
            signed = _follow_label(cleaned, signed)
        lines.append(_repeat_decision(cleaned, signed, path))
    return lines


def _follow_label(cleaned: CleanedFolder, line: Decision) -> Decision:
    """An accepted suggestion that is another one here, as the decision for its label."""
    if line.action != "accept" or not line.label or line.id not in cleaned.rows:
        return line
    return line._replace(action=name_action(line.label, cleaned.rows[line.id], line.action))


def _repeat_decision(cleaned: CleanedFolder, line: Decision, path: Path) -> Decision:
    """A line of a file as a decision here, or an error if it would give another label."""
    taken = (cleaned, line.id, line.action, line.label, line.who)
    found = make_decision(*taken, time=line.time, note=line.why)
    if line.label and line.label != found.label:
        raise DataError(
            f"{path}: image {line.id} was to be {line.label!r} by {line.action!r}, which is "
            f"{found.label!r} in {cleaned.folder}; the file belongs to another cleaned folder, and "
            "if that is of the same images, its decisions.csv is taken over by: drpl clean DATA -o "
            "NEW --decisions FILE"
        )
    return found


def add_new(log: DecisionLog, lines: list[Decision]) -> tuple[int, int]:
    """Add the lines that are not in a log; how many were new, and how many not."""
    known = {decision[:4] for decision in log.lines}
    new = [line for line in lines if line[:4] not in known]
    log.add(*new)
    return len(new), len(lines) - len(new)


def _read_identity(cleaned: CleanedFolder, path: Path) -> str:
    """Which data a file is on by where it lies; nothing unless it is a cleaned folder's log.

    Raise if it lies in a folder of other images or labels.
    """
    place = path.parent
    if not all((place / name).is_file() for name in ("samples.csv", "data.json")):
        return ""
    same = place.resolve() == cleaned.folder.resolve()
    if not same and CleanedFolder.load(place, look=False).identity != cleaned.identity:
        raise DataError(
            f"{path} belongs to other images, or other labels, than {cleaned.folder}; earlier "
            "decisions on the same images are taken over by: drpl clean DATA -o NEW --decisions "
            f"{path}"
        )
    return cleaned.identity if path.name == FILE else ""  # others may have been put there


def check_signature(who: str, path: Path) -> None:
    """Raise if a decision in a file is signed as the model's."""
    if who.strip() == MODEL:
        raise DataError(
            f"{path}: {MODEL!r} stands for the model in the audit; no decision of a person may "
            "be signed so"
        )


def is_log(path: Path) -> bool:
    """Whether a file begins as such a log does, or as a page without server saves it."""
    try:
        with path.open("rb") as file:
            head = file.readline(1000).decode("utf-8-sig", "replace")
    except (OSError, ValueError):  # whoever reads it says why
        return False
    return tuple(head.rstrip().split(",")) in (Decision._fields, (*Decision._fields, IDENTITY))


def parse_file(path: Path) -> Iterator[Decision]:
    """The lines of such a file, without a last one that a crash tore."""
    return (line for line, _ in _read_lines(path, repair=True))


def _read_lines(path: Path, *, repair: bool) -> Iterator[tuple[Decision, str]]:
    """Each line of such a file, and which data it says it is on; with `repair` no torn one."""
    try:
        data = path.read_bytes()
        text = (data[: measure_whole_lines(data)] if repair else data).decode("utf-8-sig")
        head, *rows = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    if not text and repair:
        return
    if tuple(head) not in (Decision._fields, (*Decision._fields, IDENTITY)):
        raise RunError(f"{path} is no list of decisions: wanted is {','.join(Decision._fields)}")
    for number, cells in enumerate(filter(None, rows), 1):
        row = [unquote_formula(cell) for cell in cells]
        if len(row) != len(head) or parse_whole(row[2]) is None or row[3] not in ACTIONS:
            raise RunError(f"{path}, row {number}: wanted are {', '.join(Decision._fields)}")
        yield Decision(row[0], row[1], int(row[2]), *row[3:6]), "".join(row[6:])


def measure_whole_lines(data: bytes) -> int:
    """How many bytes hold whole lines: a line break inside quotes ends none."""
    end = position = quotes = 0
    for line in data.splitlines(keepends=True):
        position += len(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0 and line.endswith(b"\n"):
            end = position
    return end
