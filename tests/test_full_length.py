"""The recipe at its own length: what is there is kept, and its plan is the paper's."""

from argparse import Namespace
from pathlib import Path

import pandas as pd
import pytest
from benchmarks import full_length

from drpl.config.compose import merge
from drpl.data.dataset import DatasetSplits
from drpl.runs.experiment import compose_for


@pytest.mark.slow
def test_all_of_it_goes_on_where_it_was(tmp_path: Path) -> None:
    words = ["--quick", "--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    full_length.main([*words, "--methods", "cross_entropy"])
    first = pd.read_csv(tmp_path / "results" / "table.csv")
    assert list(first["method"]) == ["cross_entropy"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    full_length.main(words)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    whole = pd.read_csv(tmp_path / "results" / "table.csv")
    assert list(whole["method"]) == ["cross_entropy", "mixup", "joint", "drpl (literal)"]
    losses = pd.read_csv(tmp_path / "results" / "losses.csv")
    assert {"train", "relabel", "detect"} <= set(losses["stage"])
    assert [*(tmp_path / "results").glob("*-losses.png")]
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    full_length.main([*words, "--finished"])  # nothing is there to be written
    assert list(pd.read_csv(tmp_path / "results" / "table.csv")["method"]) == list(whole["method"])


def test_epochs_are_the_papers() -> None:
    epochs = {"relabel": 130, "warmup": 10, "detect": 175, "final": 300}
    config = compose_for("drpl", ["cifar10", "literal"], {}).model_dump()
    assert {name: config[f"{name}_schedule"]["epochs"] for name in epochs} == epochs
    assert not config["pool"]
    assert not config["min_labelled"]


@pytest.mark.parametrize("quick", [True, False])
def test_only_the_quick_run_guards_against_too_few_labels(
    quick: bool, tiny: DatasetSplits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_length, "load", lambda *_: tiny)
    asked = Namespace(
        quick=quick, methods=full_length.METHODS, out=Path("runs"), data_dir=Path("data")
    )
    settings = [grid.settings for grid in full_length.plan(asked)]
    guards = [one["min_labelled"] for one in settings if "min_labelled" in one]
    assert guards == ([full_length.GUARD] if quick else [])  # of DRPL alone


@pytest.mark.parametrize("method", full_length.METHODS)
def test_what_is_shortened_is_all_that_is_long(method: str) -> None:
    name, _, overlay = method.partition(":")
    settings = merge({}, full_length.shorten(method))
    config = compose_for(name, ["digits", *([overlay] if overlay else [])], settings)
    schedules = [
        value for key, value in config.model_dump().items() if key.endswith("schedule") and value
    ]
    assert [schedule["epochs"] for schedule in schedules] == [6] * len(schedules)
