"""Curves over epochs: medians, bands and marks are what the folders hold."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from drpl.report import curves
from drpl.report.load import load_runs, read_arrays, read_samples
from drpl.report.style import assign_strokes
from tests.support.run_folders import Recipe, write_run


def test_bands_are_quantiles_of_clean_and_noisy_losses(run: Path) -> None:
    (result,) = load_runs([run])
    figure = curves.draw_losses([result], {}, "title")
    assert figure
    table, truth = read_arrays(result, "evidence/relabel.npz"), read_samples(result)
    assert table
    assert truth
    axes = figure.axes[0]
    assert axes.get_title() == "drpl, relabel"
    lines = {line.get_label(): line for line in axes.lines}
    for mask, name in ((~truth["wrong"], "clean"), (truth["wrong"], "noisy")):
        middle = np.median(table["losses"][:, mask], axis=1)
        assert np.allclose(lines[f"{name}, median"].get_ydata(), middle)
        bands = {band.get_label(): band for band in axes.collections}
        band = bands[f"{name}, 10 to 90 %"]
        assert isinstance(band, PolyCollection)
        wanted = np.percentile(table["losses"][:, mask], [10, 90], axis=1)
        heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
        assert np.isclose(heights.min(), wanted.min())
        assert np.isclose(heights.max(), wanted.max())
    assert list(np.asarray(lines["clean, median"].get_xdata())) == [3, 6, 9, 12, 15, 18, 21, 24]
    assert list(np.asarray(lines["then labels are replaced"].get_xdata())) == [6, 6]


def test_training_accuracy_is_the_mean_over_seeds(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / str(seed), Recipe(seed=seed)) for seed in (1, 2)]
    runs = load_runs(folders)
    figure = curves.draw_training(runs, {}, "title")
    assert figure
    assert [axes.get_title() for axes in figure.axes] == ["drpl, relabel", "drpl, detect"]
    for axes, stage in zip(figure.axes, ("relabel", "detect"), strict=True):
        lines = {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}
        for label, key in (
            ("by the given labels", "train_accuracy"),
            ("by what was taught", "target_accuracy"),
        ):
            wanted = [[r[key] for r in run.history if r["stage"] == stage] for run in runs]
            assert lines[label] == pytest.approx(np.mean(wanted, axis=0))
    old = folders[0] / "history.jsonl"
    rows = [json.loads(line) for line in old.read_text().splitlines()]
    for row in rows:  # as versions wrote it that did not record it
        del row["train_accuracy"], row["target_accuracy"]
    old.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert curves.draw_training(load_runs(folders[:1]), {}, "title") is None


def test_the_accuracy_figure_marks_last_and_best(run: Path) -> None:
    (result,) = load_runs([run])
    figure = curves.draw_accuracy([result], assign_strokes(["drpl"]), "title")
    assert figure
    lines = [line for line in figure.axes[0].lines if np.size(line.get_xdata())]
    marks = {line.get_marker(): [float(np.ravel(v)[0]) for v in line.get_data()] for line in lines}
    assert marks["o"][1] == pytest.approx(result.accuracy["last"])
    assert marks["*"][1] == pytest.approx(result.accuracy["best"])
    best = int(marks["*"][0]) - 1
    assert result.history[best]["accuracy"] == result.accuracy["best"]
    assert result.history[best]["stage"] == "detect"
