"""ROC curves of methods and detectors."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.detection.detectors import keep_labels
from drpl.detection.evidence import Evidence
from drpl.detection.metrics import score
from drpl.files import read_arrays, write_arrays
from drpl.registry import DETECTORS
from drpl.report import roc
from drpl.report.agreement import judge_by_agreement
from drpl.report.load import load_runs, read_samples
from drpl.report.roc import average_curves, compute_curve
from drpl.report.style import assign_strokes
from tests.support.run_folders import Recipe, write_run


def test_detectors_come_from_the_scores(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Recipe())
    (result,) = load_runs([folder])
    assert list(roc.read_scores(result)["detect"]) == ["split's loss"]
    table = read_samples(result)
    assert table
    scores = result.samples[["id"]].copy()
    for name in ("small_loss", "margin"):
        scores[f"relabel:{name}"] = table["loss"] + (name == "margin") * table["wrong"] * 100
    scores.to_csv(folder / "scores.csv", index=False)
    figure = roc.draw_detectors(result, "title")
    assert figure
    assert [axes.get_title() for axes in figure.axes] == ["relabel: best is margin (1.000)"]
    stars = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
    (x,), (y,) = (np.asarray(v) for v in stars[0].get_data())
    assert result.detection
    assert (x, y) == (result.detection["fpr"], result.detection["tpr"])


def test_the_papers_detector_by_agreement_judges_cross_entropy(tmp_path: Path) -> None:
    recipes = [Recipe("cross_entropy", stages=("train",), seed=seed) for seed in (1, 2)]
    runs = load_runs([write_run(tmp_path / str(one.seed), one) for one in recipes])
    judged = [judge_by_agreement(run) for run in runs]
    for run, found in zip(runs, judged, strict=True):
        assert found
        samples, evidence = read_samples(run), Evidence.read(run.folder / "evidence" / "train.npz")
        assert samples
        detector = DETECTORS["two_stage"]
        scores = detector.load()(evidence, torch.from_numpy(samples["given"]))
        assert found.scores.tolist() == scores.tolist()
        kept = keep_labels(scores, detector.threshold).numpy()
        wanted = score(scores.numpy(), kept, samples["wrong"])
        for key, value in (found.result.detection or {}).items():
            assert value == pytest.approx(wanted[key])
        assert found.result.summary["flagged"] == (~kept).sum()
    figure = roc.draw_methods(runs, assign_strokes(["cross_entropy"]), "title")
    assert figure
    labels = [str(line.get_label()) for line in figure.axes[0].lines]
    (mine,) = [label for label in labels if label.startswith("two_stage (TS) on cross_entropy")]
    area = np.mean([(found.result.detection or {})["auroc"] or 0 for found in judged if found])
    assert mine.endswith(f"(AUROC {area:.3f})")


def test_other_runs_are_not_judged_by_agreement(run: Path, tmp_path: Path) -> None:
    (drpl,) = load_runs([run])
    assert judge_by_agreement(drpl) is None
    blind = write_run(tmp_path, Recipe("cross_entropy", stages=("train",)))
    (blind / "evidence" / "train.npz").unlink()
    assert judge_by_agreement(load_runs([blind])[0]) is None


def test_curves_count_what_is_kept_below_each_loss() -> None:
    draws = np.random.default_rng(1)
    losses, wrong = draws.random(200), draws.random(200) < 0.4
    losses[wrong] += 0.3
    noisy_kept, clean_kept = compute_curve(losses, wrong)
    area = np.trapezoid(clean_kept, noisy_kept)
    pairs = losses[wrong][:, None] > losses[~wrong][None]
    assert area == pytest.approx(pairs.mean())  # a noisy loss above a clean one
    for border in (0.2, 0.5, 0.9):
        point = np.mean(losses[wrong] <= border), np.mean(losses[~wrong] <= border)
        assert np.interp(point[0], noisy_kept, clean_kept) >= point[1] - 1e-12
    across, height = average_curves([(noisy_kept, clean_kept)] * 3)
    assert np.trapezoid(height, across) == pytest.approx(area, abs=0.01)


def test_a_curve_is_of_the_scores_that_its_auroc_is_of(tmp_path: Path) -> None:
    """Of cleaned folders and recordings that is how probably a label is wrong, not the loss."""
    folder = write_run(tmp_path, Recipe("cross_entropy", stages=("train",)))
    table = read_arrays(folder / "samples.npz")
    draws = np.random.default_rng(1)
    table["p_noisy"] = np.where(draws.random(len(table["wrong"])) < 0.8, table["wrong"], 0.5)
    write_arrays(folder / "samples.npz", table)
    for name in ("p_noisy", "loss"):
        summary = json.loads((folder / "result.json").read_text())
        area = score(table[name], ~table["flagged"], table["wrong"])["auroc"]
        summary["detection"]["auroc"] = area
        (folder / "result.json").write_text(json.dumps(summary))
        figure = roc.draw_methods(load_runs([folder]), assign_strokes(["cross_entropy"]), "title")
        assert figure
        [line] = [one for one in figure.axes[0].lines if str(one.get_label()).startswith("cross")]
        assert str(line.get_label()) == f"cross_entropy (AUROC {area:.3f})"
        x, y = (np.asarray(one, float) for one in line.get_data())
        assert np.trapezoid(y, x) == pytest.approx(area, abs=0.005)
