"""How far the probabilities can be trusted, in the report."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.review import decide

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.reliability import ENOUGH, build_trust, update_report
from drpl.cleaning.review.decision_log import DecisionLog
from drpl.files import write_arrays
from tests.conftest import Command
from tests.support.cleaned import make

COUNT = 80


@pytest.fixture
def cleaned(tmp_path: Path) -> CleanedFolder:
    folder = make(tmp_path, COUNT).folder
    write_arrays(folder / "samples.npz", {"given": np.zeros(COUNT)})
    (folder / "report.html").write_text("<p>a</p><!-- trust --><!-- /trust --><p>ö</p>", "utf-8")
    return CleanedFolder.load(folder)


def test_a_review_tells_the_report(cleaned: CleanedFolder) -> None:
    path = cleaned.folder / "report.html"
    wrong = np.arange(COUNT) % 3 == 0
    update_report(cleaned, {})
    assert ENOUGH == 20
    assert "Not known yet: that takes twenty decisions" in path.read_text("utf-8")
    update_report(cleaned, decide(cleaned, list(range(COUNT)), wrong, 0.0, 1))
    text = path.read_text("utf-8")
    assert text.startswith("<p>a</p>")
    assert text.endswith("<p>ö</p>")
    assert "Not known yet" not in text
    assert "Held against 80 decisions" in text
    assert text.count("<svg") == 2
    assert "before the review: " in text
    update_report(cleaned, {})  # all was undone
    assert "Not known yet" in path.read_text("utf-8")


def test_an_older_report_is_left_alone(cleaned: CleanedFolder) -> None:
    path = cleaned.folder / "report.html"
    path.write_text("old")
    update_report(cleaned, {})
    assert path.read_text() == "old"
    path.unlink()
    update_report(cleaned, {})
    assert not path.exists()


def test_the_truth_counts_for_more_than_people(cleaned: CleanedFolder) -> None:
    write_arrays(cleaned.folder / "samples.npz", {"wrong": np.arange(COUNT) < 4})
    html = build_trust(cleaned, {}).html
    assert "Held against the truth" in html
    assert html.count("<svg") == 1


def test_decisions_that_are_taken_in_reach_the_report(
    cleaned: CleanedFolder, command: Command, tmp_path: Path
) -> None:
    with DecisionLog(cleaned) as log:
        listed = [int(number) for number in cleaned.issues.index]
        log.add(*decide(cleaned, listed, np.arange(COUNT) < 9, 0.0, 1).values())
    source = cleaned.folder / "decisions.csv"
    taken = tmp_path / "taken.csv"
    source.rename(taken)
    answer = command("review", str(cleaned.folder), "--import", str(taken))
    assert answer.code == 0, answer.err
    said = f"Held against {len(listed)} decisions"
    assert len(listed) >= ENOUGH
    assert said in (cleaned.folder / "report.html").read_text("utf-8")
