"""Decisions on an earlier cleaning of the same images, taken over into a new one."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from drpl.cleaning.folder import SAMPLES, CleanedFolder, read_table
from drpl.cleaning.review.decision_log import ActiveDecisions, Decision, DecisionLog, parse_file
from drpl.errors import DataError, RunError


@dataclass(frozen=True)
class Earlier:
    """The decisions that held in an earlier folder, everyone's, and its samples."""

    file: Path
    decisions: list[Decision]
    samples: pd.DataFrame


def read_earlier(file: Path | str) -> Earlier:
    """Read the decisions.csv of a cleaned folder."""
    file = Path(file)
    if not (file.parent / "samples.csv").exists():
        raise DataError(
            f"{file.parent} has no samples.csv, which says what image each decision is on; "
            "name the decisions.csv inside the folder that `drpl clean` wrote"
        )
    samples = read_table(file.parent / "samples.csv", SAMPLES)
    own = ActiveDecisions(parse_file(file)).by_person().values()
    decisions = [decision for mine in own for decision in mine.values()]
    if unknown := [d.id for d in decisions if d.id not in samples.index]:
        raise RunError(f"{file}: samples.csv has no image {unknown[0]}")
    return Earlier(file, sorted(decisions), samples)  # by time


def carry_over(cleaned: CleanedFolder, earlier: Earlier) -> int:
    """Add the earlier decisions to a folder's log; how many there were for its images.

    Images are the same if their paths are; without paths, if the data have the same labels in the
    same order. Labels that are no class here any more are left out, and so is what was decided here
    later.
    """
    numbers = _match(cleaned, earlier)
    lines = []
    for decision in earlier.decisions:
        number = numbers.get(decision.id)
        if number is None or (decision.label and decision.label not in cleaned.classes):
            continue
        action = _rename_action(decision, cleaned.samples.loc[number])
        why = f"decided earlier: {decision.why}" if decision.why else "decided earlier"
        lines.append(decision._replace(id=number, action=action, why=why))
    with DecisionLog(cleaned) as log:
        known, holds = {line[:4] for line in log.lines}, log.active.by_image()
        lines = [line for line in lines if line.id not in holds or holds[line.id].time <= line.time]
        log.add(*(line for line in lines if line[:4] not in known))
    return len(lines)


def _match(cleaned: CleanedFolder, earlier: Earlier) -> dict[int, int]:
    """The ids here of the earlier folder's images."""
    before, now = earlier.samples["path"], cleaned.samples["path"]
    if before.all() and now.all():
        here = dict(zip(now, now.index.tolist(), strict=True))
        return {int(i): here[path] for i, path in before.items() if path in here}
    if _read_labels(earlier.file.parent) != _read_labels(cleaned.folder):
        raise DataError(
            f"{earlier.file}: its images have no paths, and the labels were not those of "
            f"{cleaned.source}; nobody can say which image is which"
        )
    return {int(i): int(i) for i in before.index}


def _read_labels(folder: Path) -> str:
    """The fingerprint of the labels that a run was trained on."""
    path = folder / "config.toml"
    if not path.exists():
        raise RunError(f"there is no {path}; make the folder with `drpl clean`")
    try:
        return str(tomllib.loads(path.read_text("utf-8"))["run"]["labels"])
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path} is damaged: it does not say which labels it is of") from None


def _rename_action(decision: Decision, row: pd.Series) -> str:
    """What the decision is called here, where the image may have got another label since."""
    if decision.action == "outside":
        return "outside"
    if decision.label == row.given_label:
        return "keep"
    return "accept" if decision.label == row.suggested_label else "relabel"
