"""Out and back: a cleaned folder's labels to a file of another tool, its decisions to the log."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from drpl.cleaning.exchange.labels import build_export
from drpl.cleaning.exchange.read import match_labels, read_labels
from drpl.cleaning.folder import CleanedFolder, read_clock
from drpl.cleaning.reliability import update_report
from drpl.cleaning.review.decision_log import (
    Decision,
    DecisionLog,
    add_new,
    is_log,
    parse_decisions,
)
from drpl.errors import ConfigError, DataError, StorageError
from drpl.files import check_apart
from drpl.registry import FORMATS, find


class Exported(NamedTuple):
    """How much was written, and what a user should know about it."""

    images: int
    decided: int
    notes: list[str]


class TakenIn(NamedTuple):
    """How many decisions were new, how many not, and what could not be used."""

    new: int
    old: int
    notes: list[str]


def export_labels(
    folder: Path | str,
    to: str,
    path: Path | str,
    *,
    issues_only: bool = False,
    prefix: str | None = None,
) -> Exported:
    """Write the labels and decisions of a cleaned folder for another tool.

    `to` is a name from `drpl list formats`. `issues_only` leaves out images that are neither
    suspicious nor decided. `prefix` is put before their paths where a tool wants addresses.
    """
    entry = find("format", to, FORMATS)
    cleaned, path = CleanedFolder.load(folder), Path(path)
    if entry.ending and path.suffix.lower() != entry.ending:
        raise ConfigError(f"{to} is written to a file that ends with {entry.ending}, not {path}")
    if path.resolve().is_relative_to(cleaned.folder.resolve()):
        raise StorageError(f"{path} is inside {cleaned.folder}; choose another place")
    if cleaned.root and not cleaned.is_list:
        check_apart(path, cleaned.root)
    export = build_export(cleaned, issues_only=issues_only, prefix=prefix)
    entry.load().write(export, path)
    notes = []
    lost = 0 if entry.ending else sum(image.file is None for image in export.images)
    if lost:
        notes.append(f"{lost:,} images have no file and are left out")
    decided = sum(bool(image.decisions) for image in export.images)
    return Exported(len(export.images) - lost, decided, notes)


def import_labels(folder: Path | str, path: Path | str, *, reviewer: str) -> TakenIn:
    """Take in the decisions of a file: our own, or one of another tool in a format that is known.

    All of them or none; taking a file in twice changes nothing. `reviewer` signs what nobody did.
    """
    return take_in(CleanedFolder.load(folder), Path(path), reviewer)


def take_in(cleaned: CleanedFolder, path: Path, who: str) -> TakenIn:
    """Add what is new in a file to a folder's log, and let the report say so.

    The whole file is read first: one that is refused leaves nothing behind.
    """
    matched = None if is_log(path) else match_labels(cleaned, read_labels(path), same=True)
    lines = parse_decisions(cleaned, path, who) if matched is None else matched.decisions
    notes = [] if matched is None else matched.notes
    if not lines and notes:
        raise DataError("; ".join(notes))
    with DecisionLog(cleaned) as log:
        if matched is None:
            new, old = add_new(log, lines)
        else:
            new = add_decisions(log, lines, who)
            old = len(lines) - new
        with suppress(KeyboardInterrupt):  # the report is whole or as it was
            update_report(cleaned, log.active.by_image())
    return TakenIn(new, old, notes)


def add_decisions(log: DecisionLog, decisions: Iterable[Decision], who: str) -> int:
    """Add decisions that are not in a log; how many these are.

    `who` signs what nobody signed, and what has no time is decided now.
    """
    known, now = {line[:4] for line in log.lines}, read_clock()
    new = []
    for line in decisions:
        signed = line._replace(who=line.who or who, time=line.time or now)
        own = log.active.find_own(signed.id, signed.who)
        same = own is not None and (own.label, own.action) == (line.label, line.action)
        if signed[:4] not in known and not (same and not line.time):
            new.append(signed)
    log.add(*new)
    return len(new)
