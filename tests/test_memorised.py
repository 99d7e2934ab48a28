"""The study of what networks memorise: its measures, by hand and on a tiny run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import memorised, mini

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.report.load import read_wrong
from drpl.runs.experiment import compose_for
from tests.support.tiny import tiny_config


def test_the_area_of_a_map_is_where_it_is_in_the_upper_half_of_its_range() -> None:
    left = np.array([[1.0, 1.0, -3.0, -3.0]] * 4)
    assert memorised.measure_area(left) == pytest.approx(0.5, abs=0.05)
    assert memorised.measure_area(10 * left + 7) == memorised.measure_area(left)
    peak = np.zeros((4, 4))
    peak[0, 0] = 1.0
    assert memorised.measure_area(peak) < 0.1
    assert memorised.measure_area(1 - peak) > 0.9


def test_halfway_is_the_first_epoch_with_half_of_the_noisy_labels_fitted() -> None:
    rows = [
        {
            "method": "cross_entropy",
            "noise": noise,
            "seed": 1,
            "epoch": epoch,
            "noisy fitted": share,
        }
        for noise, shares in (("uniform:0.6", (0.1, 0.6, 0.9)), ("ood:0.6", (0.1, 0.2, 0.3)))
        for epoch, share in enumerate(shares, 1)
    ]
    rows.append({**rows[2], "method": "drpl"})
    found = memorised.find_halfway(pd.DataFrame(rows))
    assert [(row["noise"], row["epoch"]) for row in found] == [("uniform:0.6", 2), ("ood:0.6", 3)]


def test_losses_are_followed_epoch_by_epoch(tiny: DatasetSplits, tmp_path: Path) -> None:
    run = drpl.train(
        tiny,
        method="cross_entropy",
        config=tiny_config("cross_entropy", 3),
        noise="uniform:0.25",
        out=tmp_path / "run",
        track_every=1,
        quiet=True,
    )
    rows = list(memorised.follow(run))
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    last, wrong = rows[-1], read_wrong(run)
    assert wrong is not None
    assert run.detection is not None
    assert last["auroc"] == pytest.approx(run.detection["auroc"])
    every = last["clean fitted"] * (~wrong).sum() + last["noisy fitted"] * wrong.sum()
    with np.load(run.folder / "evidence" / "train.npz") as seen:
        assert every == pytest.approx((seen["margins"][-1] > 0).sum())
    assert last["accuracy by labels"] == run.history[-1]["train_accuracy"]


@pytest.mark.parametrize("method", ["mixup", "drpl"])
def test_schedules_are_halved(method: str) -> None:
    whole = compose_for(method, ["mini"], {}).model_dump()
    half = compose_for(method, ["mini"], memorised.shorten(method, 2)).model_dump()
    for name, schedule in whole.items():
        if name.endswith("schedule"):
            assert half[name]["epochs"] == -(-schedule["epochs"] // 2)
            assert len(half[name]["lr"]) == len(schedule["lr"])
            assert half[name]["lr"][-1][0] <= half[name]["epochs"]


def test_all_noises_are_tried_with_every_seed() -> None:
    runs = list(memorised.list_runs())
    assert len(set(runs)) == len(runs)
    for seed in memorised.SEEDS:
        for method in ("cross_entropy", "mixup", "drpl"):
            tried = {
                c.noise for size, c in runs if (size, c.method, c.seed) == ("small", method, seed)
            }
            assert tried - {None} == set(mini.NOISES)
