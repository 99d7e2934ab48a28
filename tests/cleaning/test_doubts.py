"""What is doubtful about a cleaning stands before what it found, and withholds the list."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from drpl.cleaning.doubts import CONTRADICTED, find_doubts
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.judge import Judgement
from drpl.cleaning.plan import USEFUL, Doubts
from drpl.cleaning.sections import build_about
from drpl.cleaning.summary import summarize
from drpl.cleaning.tables import build_issues
from drpl.data.dataset import in_memory
from drpl.data.readers.arrays import arrays
from tests.cleaning.test_clean import blobs, plan_quickest
from tests.cleaning.test_judge import judged
from tests.cleaning.test_summary import FIGURES
from tests.conftest import Command
from tests.support.cleaned import make

ONE_MODE = "the losses have one mode, not two: they hardly separate clean from noisy"


def doubt(run: Judgement, *notes: list[str], early: str = "", pixels: bool = True) -> Doubts:
    """The doubts about runs with these notes, and perhaps one that there was before."""
    runs: list[Any] = [
        SimpleNamespace(summary={"stages": [{"notes": ["of an early stage"]}, {"notes": note}]})
        for note in notes or ([],)
    ]
    return find_doubts(run, runs, Doubts([early] if early else [], bool(early)), pixels=pixels)


def widen(run: Judgement, doubts: Doubts) -> Judgement:
    return replace(run, unsure=doubts.on_rate)


def test_a_good_run_has_none() -> None:
    run, _ = judged(0.2, 0.05)
    found = doubt(run)
    assert found.texts == []
    assert not found.on_rate


def test_the_notes_of_the_last_stage_are_counted() -> None:
    run, _ = judged(0.2, 0.05)
    assert doubt(run, [ONE_MODE]).texts == [ONE_MODE]
    assert doubt(run, [ONE_MODE], [], [ONE_MODE]).texts == [f"{ONE_MODE} (2 of 3 runs)"]
    assert not doubt(run, [ONE_MODE]).on_rate


def test_what_was_doubtful_before_withholds_the_list_on_pixels() -> None:
    run, _ = judged(0.2, 0.05)
    assert run.rate.low > 0.1
    found = doubt(run, early="too few steps")
    assert found.texts == ["too few steps"]
    wider = widen(run, found)
    assert (wider.rate.low, wider.rate.high) == (0, run.rate.high)
    assert wider.rate.value == 0
    assert not wider.issues.any()
    assert bool((wider.order == run.order).all())
    few = doubt(run, early="too few steps", pixels=False)
    assert few.texts == ["too few steps"]
    assert not few.on_rate  # their rate comes from elsewhere


def test_predictions_of_little_use() -> None:
    run, _ = judged(0.55, 0.35)
    assert run.rate.high >= CONTRADICTED
    found = doubt(run)
    assert "of little use" in found.texts[0]
    assert not found.on_rate  # the labels may be that bad
    both = doubt(run, [ONE_MODE])
    assert both.texts[1:] == [ONE_MODE]
    assert widen(run, both).rate.low == 0


def test_the_lower_probabilities_follow_the_rate() -> None:
    run, _ = judged(0.2, 0.05, samples=400)
    train = in_memory(torch.zeros(400, 1, 2, 2), run.given, tuple("abcde"))
    unsure = widen(run, doubt(run, early="too few steps"))
    every = torch.arange(400)
    before, after = (build_issues(one, train, every) for one in (run, unsure))
    assert before.loc[run.issues.numpy(), "p_low"].mean() > 0.5
    assert after["p_low"].max() < 0.1
    assert after["p_high"].equals(before["p_high"])


def test_doubts_come_first(tmp_path: Path) -> None:
    figures = FIGURES | {"doubts": [ONE_MODE, "1 < 2"]}
    lines = summarize(figures, Path("cleaned")).split("\n\n")
    assert lines[:3] == ["# What was found", f"Doubtful: {ONE_MODE}.", "Doubtful: 1 < 2."]
    assert lines[3].startswith("Between **18.0%**")
    cleaned = CleanedFolder.load(make(tmp_path).folder)
    html = build_about(cleaned, figures).lead
    assert html.index("one mode") < html.index("1 &lt; 2") < html.index("Between <b>")


def test_the_command_ends_with_them(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drpl.cleaning.clean.write_report", lambda *_, **__: None)
    monkeypatch.setitem(USEFUL, "vectors", 1_000_000)
    data, _, given = blobs(3, 400)
    vectors = data.train.images.load(torch.arange(400)).numpy()
    np.savez(tmp_path / "blobs.npz", x=vectors, y=given)
    plan_quickest(arrays(vectors, given), tmp_path / "out")
    answer = command("clean", tmp_path / "blobs.npz", "-o", tmp_path / "out", "--quiet")
    assert answer.code == 0, answer.err
    _, first, *_ = answer.out.split("\n\n")
    assert first.startswith("Doubtful: ")
    assert answer.out.index("steps only") < answer.out.index("Between")
