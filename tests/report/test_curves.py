"""Curves over epochs: medians, bands and marks are what the folders hold."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from drpl.report import curves
from drpl.report.load import load_runs, read_arrays, read_samples
from drpl.report.style import assign_strokes


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
