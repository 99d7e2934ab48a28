"""Histograms hold all samples; the threshold stands where labels stop being kept."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from drpl.report import histograms
from drpl.report.load import load_runs, read_split


def test_the_threshold_stands_where_labels_stop_being_kept(run: Path) -> None:
    (result,) = load_runs([run])
    for stage in result.summary["stages"]:
        table = read_split(result, stage["stage"])
        border = histograms.find_border(stage, table)
        assert border is not None
        assert (table["clean"] == (table["losses"] < border)).all()
    mixed = {"losses": np.array([1.0, 2, 3]), "noisy": np.array([0.9, 0.1, 0.9])}
    assert histograms.find_border({"threshold": 0.5}, mixed) is None  # no single place
    none = {"losses": np.array([1.0, 2]), "noisy": np.array([0.1, 0.1])}
    assert histograms.find_border({"threshold": 0.5}, none) is None


def test_histograms_hold_all_samples_and_the_fitted_components(run: Path) -> None:
    (result,) = load_runs([run])
    figure = histograms.draw_loss_histograms(result, "title")
    assert figure
    axes, stage = figure.axes[0], result.summary["stages"][0]
    bars = [patch.get_data() for patch in axes.patches if hasattr(patch, "get_data")]
    area = sum(((b.values - b.baseline) * np.diff(b.edges)).sum() for b in bars)
    assert area == pytest.approx(1)
    lines = {line.get_label(): line for line in axes.lines}
    mixture = stage["mixture"]
    low, high = mixture["scale"]
    x, y = (np.asarray(v) for v in lines["fitted, high losses"].get_data())
    density = beta.pdf((x - low) / (high - low), mixture["alpha"][1], mixture["beta"][1])
    assert np.allclose(y, 0.9 * mixture["weight"][1] * density / (high - low))
