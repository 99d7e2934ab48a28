"""The benchmark from scratch: all look at the images equally often, and rows are kept once."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from benchmarks import humans_scratch as scratch

from drpl.runs.experiment import compose_for


@pytest.mark.parametrize("name", scratch.METHODS)
def test_every_method_takes_the_looks_it_is_given(name: str) -> None:
    method, *overlay = name.partition(",")[0].split(":")
    config: Any = compose_for(method, ["small", *overlay], scratch.METHODS[name](41))
    if method == "drpl":
        looks = config.relabel_schedule.epochs + 2 * config.detect_schedule.epochs
        assert config.relabel.begin < config.relabel_schedule.epochs
        assert config.warm_start == bool(overlay)
    else:
        looks = config.schedule.epochs
    assert 39 <= looks <= 41


def test_changes_come_one_at_a_time() -> None:
    configs = {
        name: compose_for("drpl", ["small"], settings).describe()
        for name, settings in scratch.list_changes(20).items()
    }
    assert len({str(config) for config in configs.values()}) == len(configs)
    assert not configs["drpl"]["relabel_schedule"].get("cycle")
    assert all(c["relabel_schedule"]["cycle"] for name, c in configs.items() if name != "drpl")


def test_a_run_that_is_repeated_replaces_its_rows(tmp_path: Path) -> None:
    def row(seed: int, auroc: float) -> scratch.Row:
        return {"labels": "worse", "method": "drpl:fast", "seed": seed, "auroc": auroc}

    scratch.keep(tmp_path, "table", [row(2, 0.7), row(2, 0.8)])
    scratch.keep(tmp_path, "table", [row(1, 0.6)])
    scratch.keep(tmp_path, "table", [row(2, 0.9)])
    assert pd.read_csv(tmp_path / "table.csv")[["seed", "auroc"]].to_numpy().tolist() == [
        [1, 0.6],
        [2, 0.9],
    ]
