"""A cleaned folder with 200 decisions of two people, and a copy that nobody decided on."""

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import (
    ActiveDecisions,
    Decision,
    DecisionLog,
    make_decision,
    read_decisions,
)
from tests.support.cleaned import CLASSES, make


@dataclass(frozen=True)
class Decided:
    """Where the decisions are, and where they shall go."""

    folder: Path
    copies: Path

    def copy(self, name: str) -> Path:
        """A folder of the same images without decisions."""
        return Path(shutil.copytree(self.copies, self.copies.with_name(name)))


def hold(folder: Path) -> tuple[dict[str, dict[int, Decision]], dict[int, Decision]]:
    """Everyone's decisions, and those that hold."""
    active = ActiveDecisions(read_decisions(CleanedFolder.load(folder)))
    return active.by_person(), active.by_image()


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Decided:
    where = tmp_path_factory.mktemp("decided")
    made = make(where, 700, look=40)
    undecided = Path(shutil.copytree(made.folder, where / "undecided"))
    cleaned = CleanedFolder.load(made.folder)
    numbers = [int(number) for number in cleaned.reviewable.index]
    assert len(numbers) > 170
    ways = itertools.cycle(
        [("accept", ""), ("keep", ""), ("relabel", CLASSES[0]), ("outside", ""), ("relabel", "")]
    )
    lines = []
    for k, number in enumerate([*numbers[:160], *numbers[:40]]):
        action, label = next(ways)
        if action == "relabel" and not label:  # the suggested one, typed
            label = cleaned.reviewable.at[number, "suggested_label"]
        time = f"2026-01-{28 - k // 8:02}T10:00:{k % 60:02}.{k:03}Z"  # the latest is not the last
        note = "for 3 alike at once" if k % 7 == 0 else ""
        who = "Ann" if k < 160 else 'Bob "=1" <b@x>\nZoë'
        lines.append(make_decision(cleaned, number, action, label, who, time=time, note=note))
    with DecisionLog(cleaned) as log:
        log.add(*lines)
        log.add(make_decision(cleaned, numbers[165], "keep", "", "Ann"))
        log.undo("Ann", numbers[165])
    people, _ = hold(made.folder)
    assert sum(map(len, people.values())) == 200
    return Decided(made.folder, undecided)
