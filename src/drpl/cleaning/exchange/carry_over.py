"""Decisions on the same images, from an earlier cleaning or another tool, in a new folder."""

import tomllib
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from drpl.cleaning.exchange.exchange import add_decisions
from drpl.cleaning.exchange.labels import Label
from drpl.cleaning.exchange.read import LabelFile, match_labels, read_labels
from drpl.cleaning.folder import SAMPLES, CleanedFolder, read_table
from drpl.cleaning.review.decision_log import ActiveDecisions, DecisionLog, is_log, parse_file
from drpl.errors import DataError, RunError

UNKNOWN = "unknown"  # signs what nobody signed


@dataclass(frozen=True)
class Earlier:
    """What was decided earlier."""

    file: LabelFile
    data: str = ""  # which labels the data had, where images have no paths to know them by


class CarriedOver(NamedTuple):
    """How many decisions hold, of how many, and what could not be used."""

    holding: int
    every: int
    notes: list[str]


def read_earlier(file: Path | str) -> Earlier:
    """Read the decisions.csv of a cleaned folder, or a file of another tool."""
    file = Path(file)
    if not is_log(file):
        return Earlier(read_labels(file))
    if not (file.parent / "samples.csv").exists():
        raise DataError(
            f"{file.parent} has no samples.csv, which says what image each decision is on; "
            "name the decisions.csv inside the folder that `drpl clean` wrote"
        )
    paths = read_table(file.parent / "samples.csv", SAMPLES)["path"]
    own = ActiveDecisions(parse_file(file)).by_person().values()
    decisions = [decision for mine in own for decision in mine.values()]
    decisions.sort(key=attrgetter("time"))  # those of one moment stay in the order of the file
    if unknown := [d.id for d in decisions if d.id not in paths.index]:
        raise RunError(f"{file}: samples.csv has no image {unknown[0]}")
    labels = [Label(paths[d.id], d.id, d.label, d.action, d.who, d.time, d.why) for d in decisions]
    data = "" if paths.all() else _read_labels(file.parent)
    return Earlier(LabelFile(file, "decisions.csv", labels), data)


def carry_over(cleaned: CleanedFolder, earlier: Earlier) -> CarriedOver:
    """Add the earlier decisions to a folder's log.

    Images are the same if their paths are; without paths, if the data have the same labels in the
    same order. Labels that are no class here any more are left out, and so is what was decided here
    later.
    """
    if earlier.data and earlier.data != _read_labels(cleaned.folder):
        raise DataError(
            f"{earlier.file.path}: its images have no paths, and the labels were not those of "
            f"{cleaned.source}; nobody can say which image is which"
        )
    matched = match_labels(cleaned, earlier.file)
    with DecisionLog(cleaned) as log:
        known, holds = {line[:4] for line in log.lines}, log.active.by_image()
        lines = [
            line._replace(why=f"decided earlier: {line.why}")
            for line in matched.decisions
            if not line.time
            or line[:4] in known
            or line.id not in holds
            or holds[line.id].time <= line.time
        ]
        add_decisions(log, lines, UNKNOWN)
    every = sum(label.action != "" for label in earlier.file.labels)
    return CarriedOver(len(lines), every, matched.notes)


def _read_labels(folder: Path) -> str:
    """The fingerprint of the labels that a run was trained on."""
    path = folder / "config.toml"
    if not path.exists():
        raise RunError(f"there is no {path}; make the folder with `drpl clean`")
    try:
        return str(tomllib.loads(path.read_text("utf-8"))["run"]["labels"])
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path} is damaged: it does not say which labels it is of") from None
