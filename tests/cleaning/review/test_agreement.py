"""Several people, and decisions of an earlier folder."""

from pathlib import Path

import pytest

from drpl.cleaning.correct import Correction
from drpl.cleaning.exchange.carry_over import carry_over, read_earlier
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.agreement import measure_agreement, summarize_review
from drpl.cleaning.review.decision_log import ActiveDecisions, DecisionLog, read_decisions
from drpl.errors import DataError
from drpl.files import write_json
from tests.cleaning.test_apply import decide
from tests.conftest import Command
from tests.support.cleaned import make


def read_active(folder: Path) -> ActiveDecisions:
    return ActiveDecisions(read_decisions(CleanedFolder.load(folder)))


def test_people_agree_and_disagree(command: Command, tmp_path: Path) -> None:
    made = make(tmp_path, 60)
    issues = CleanedFolder.load(made.folder).issues
    usual = issues.index[issues["verdict"] == "mislabelled"][:4].tolist()
    decide(made.folder, *((n, "accept", "") for n in usual), who="Ann")
    decide(made.folder, *((n, "accept", "") for n in usual[1:]), (usual[0], "keep", ""), who="Bob")
    active = read_active(made.folder)
    (pair,) = measure_agreement(active)
    assert (pair.first, pair.second, pair.both, pair.same) == ("Ann", "Bob", 4, 3)
    assert pair.kappa is not None
    assert 0 < pair.kappa < 1
    assert active.find_disputed() == [usual[0]]
    assert active.by_image()[usual[0]].who == "Bob"  # the latest holds
    correction = Correction.build(CleanedFolder.load(made.folder))
    assert usual[0] not in {change.id for change in correction.changes}
    assert "1 image is disputed" in correction.describe()
    assert "Ann and Bob agree on 3 of 4" in command("review", made.folder, "--summary").out
    with DecisionLog(CleanedFolder.load(made.folder)) as log:
        with pytest.raises(DataError, match="to take back by Eve"):
            log.undo("Eve", usual[0])
        log.undo("Bob", usual[0])
    assert read_active(made.folder).find_disputed() == []
    assert read_active(made.folder).by_image()[usual[0]].who == "Ann"


def test_a_rate_that_is_not_known_is_no_interval(tmp_path: Path) -> None:
    cleaned = CleanedFolder.load(make(tmp_path, 60, look=40).folder)
    nothing = ActiveDecisions()
    assert "10.0% to 45.0% of all labels are wrong" in summarize_review(cleaned, nothing)
    rate = {"value": 0.0, "low": 0.0, "high": 1.0}
    write_json(cleaned.folder / "clean.json", {"noise rate": rate})
    said = summarize_review(cleaned, nothing)
    assert "how many labels are wrong is not known" in said
    assert "100" not in said


def test_one_label_leaves_no_room_for_kappa(tmp_path: Path) -> None:
    made = make(tmp_path)
    number = int(CleanedFolder.load(made.folder).issues.index[0])
    for who in ("Ann", "Bob"):
        decide(made.folder, (number, "keep", ""), who=who)
    (pair,) = measure_agreement(read_active(made.folder))
    assert (pair.same, pair.kappa) == (1, None)


def test_earlier_decisions_hold_in_a_new_folder(tmp_path: Path) -> None:
    """Images are matched by path, wherever they are in the new table."""
    old, new = make(tmp_path / "old"), make(tmp_path / "new", 60)
    before, now = CleanedFolder.load(old.folder), CleanedFolder.load(new.folder)
    shared = [
        int(n)
        for n in before.issues.index
        if before.samples.at[n, "path"] in set(now.samples["path"])
    ]
    a, b = shared[:2]
    decide(old.folder, (a, "keep", ""), (b, "outside", ""), (b, "accept", ""))
    earlier = read_earlier(old.folder / "decisions.csv")
    assert carry_over(now, earlier) == (2, 2, [])
    assert carry_over(now, earlier) == (2, 2, [])  # twice is once
    held = read_active(new.folder).by_image()
    labels = {now.samples.at[n, "path"]: (d.who, d.label) for n, d in held.items()}
    assert labels == {
        before.samples.at[a, "path"]: ("Ann", before.samples.at[a, "given_label"]),
        before.samples.at[b, "path"]: ("Ann", before.issues.at[b, "suggested_label"]),
    }
    assert len(read_decisions(now)) == 2
    (tmp_path / "alone.csv").write_bytes((old.folder / "decisions.csv").read_bytes())
    with pytest.raises(DataError, match=r"has no samples\.csv"):
        read_earlier(tmp_path / "alone.csv")
