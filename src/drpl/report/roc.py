"""How well methods and detectors tell clean from noisy labels: curves in the paper's polarity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from drpl.files import explain_read_errors
from drpl.report.agreement import DETECTOR, judge_by_agreement
from drpl.report.load import Arrays, group_by_method, read_samples, read_split
from drpl.report.style import (
    BESIDE,
    EITHER,
    PAPER,
    Strokes,
    add_legend,
    assign_strokes,
    make_panels,
)
from drpl.runs.folder import Result

ACROSS = np.linspace(0, 1, 201)  # where the curves of several seeds are averaged
NEAR = 0.002  # what no eye can see on a curve

Curve = tuple[NDArray[Any], NDArray[Any]]  # noisy kept, clean kept
AXES = ("noisy labels kept by mistake, share (FPR)", "clean labels kept, share (TPR)")


def draw_methods(runs: Sequence[Result], strokes: Strokes, title: str) -> Figure | None:
    """A curve a method under one noise, and a thin one for each earlier stage.

    Curves are means over seeds; stars are the decisions that the method takes, one a seed. The
    networks of cross-entropy have a second curve: the paper's detector TS. None where the truth is
    not known, or all labels are right.
    """
    methods = group_by_method([run for run in runs if _has_auroc(run)])
    if not methods:
        return None
    figure, (axes,) = make_panels(1, title, *AXES, size=(5.0, 4.2))
    _draw_diagonal(axes)
    for method, seeds in methods.items():
        _draw_method(axes, seeds, method, *strokes[method])
        _draw_agreement(axes, seeds, method, strokes[method][0])
    axes.plot([], [], "*", color=EITHER, ms=11, mec=PAPER, label="what the method decides")
    add_legend(figure, **BESIDE)
    entries = len(axes.get_legend_handles_labels()[0])
    figure.set_size_inches(8.8, max(4.6, 0.19 * entries + 1.2))
    return figure


def _has_auroc(run: Result) -> bool:
    """Whether the truth is known, and some labels are wrong."""
    return (run.detection or {}).get("auroc") is not None


def _draw_diagonal(axes: Axes) -> None:
    """What guessing gives."""
    axes.plot([0, 1], [0, 1], color=EITHER, lw=0.8, ls=":", label="guessing (AUROC 0.500)")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))


def _draw_method(
    axes: Axes, seeds: Sequence[Result], method: str, colour: str, dashes: str
) -> None:
    """The curves of a method: thin after each stage but the last, thick at the end."""
    samples = [read_samples(run) or {} for run in seeds]
    stages = [stage["stage"] for stage in seeds[0].summary["stages"]]
    for stage in stages[:-1]:
        curves = [
            compute_curve(read_split(run, stage)["losses"], table["wrong"])
            for run, table in zip(seeds, samples, strict=True)
        ]
        label = f"{method}, after {stage}"
        axes.plot(*average_curves(curves), color=colour, lw=0.8, ls=(0, (4, 3)), label=label)
    area = np.mean([(run.detection or {})["auroc"] for run in seeds])
    last = f", after {stages[-1]}" if len(stages) > 1 else ""
    scores = [choose_scores(run, table) for run, table in zip(seeds, samples, strict=True)]
    curve = average_curves(
        [compute_curve(one, table["wrong"]) for one, table in zip(scores, samples, strict=True)]
    )
    label = f"{method}{last} (AUROC {area:.3f})"
    axes.plot(*curve, color=colour, lw=1.7, ls=dashes, label=label)
    _draw_stars(axes, seeds, colour)


def choose_scores(run: Result, table: Arrays) -> NDArray[Any]:
    """What the AUROC of a run was measured by: its loss or, where several judged, `p_noisy`.

    Folders do not say which it was, so it is the one that gives the figure that they have.
    """
    area, wrong = (run.detection or {})["auroc"] or 0.0, table["wrong"].astype(bool)
    names = [name for name in ("loss", "p_noisy") if name in table]
    return table[min(names, key=lambda name: abs(roc_auc_score(wrong, table[name]) - area))]


def _draw_agreement(axes: Axes, seeds: Sequence[Result], method: str, colour: str) -> None:
    """The curve of TS, where it judges the runs of this method."""
    judged = [one for run in seeds if (one := judge_by_agreement(run))]
    if not judged:
        return
    results = [one.result for one in judged]
    area = np.mean([(one.detection or {})["auroc"] for one in results])
    label = f"{DETECTOR} (TS) on {method} (AUROC {area:.3f})"
    curve = average_curves([compute_curve(one.scores, one.wrong) for one in judged])
    axes.plot(*curve, color=colour, lw=1.3, ls=(0, (1, 1)), label=label)
    _draw_stars(axes, results, colour)


def _draw_stars(axes: Axes, runs: Sequence[Result], colour: str, label: str | None = None) -> None:
    """Where the decisions of runs lie."""
    points = [[(run.detection or {})[key] for run in runs] for key in ("fpr", "tpr")]
    look: dict[str, Any] = {"marker": "*", "ms": 12, "mec": PAPER, "mew": 0.6, "ls": ""}
    axes.plot(*points, color=colour, zorder=5, label=label, **look)  # type: ignore[arg-type]


def compute_curve(scores: NDArray[Any], wrong: NDArray[Any]) -> Curve:
    """Keep labels from the lowest score up: the share of noisy and of clean ones kept by then."""
    noisy_kept, clean_kept, _ = roc_curve(~wrong.astype(bool), -scores)
    return noisy_kept, clean_kept


def average_curves(curves: Sequence[Curve]) -> Curve:
    """The mean height of several curves; a single one stays as it is, without needless points."""
    if len(curves) == 1:
        return _thin(curves[0])
    heights = np.mean([np.interp(ACROSS, *curve) for curve in curves], axis=0)
    return np.concatenate([[0], ACROSS]), np.concatenate([[0], heights])


def _thin(curve: Curve) -> Curve:
    """The curve without points that lie nearer to the one before than anybody sees."""
    steps = np.floor(np.stack(curve) / NEAR).astype(int)
    new = np.ones(steps.shape[1], bool)
    new[1:] = (np.diff(steps, axis=1) != 0).any(axis=0)
    new[-1] = True
    return curve[0][new], curve[1][new]


def draw_detectors(run: Result, title: str) -> Figure | None:
    """Every detector of `scores.csv`, a panel a stage, and the run's own decision.

    None where the truth is not known; without `scores.csv` the splits' own losses are drawn.
    """
    if not _has_auroc(run):
        return None
    wrong, scores = (read_samples(run) or {})["wrong"], read_scores(run)
    strokes = assign_strokes([name for columns in scores.values() for name in columns])
    figure, panels = make_panels(len(scores), title, *AXES, size=(3.3, 3.0))
    for axes, (stage, columns) in zip(panels, scores.items(), strict=True):
        _draw_diagonal(axes)
        for name, column in columns.items():
            colour, dashes = strokes[name]
            axes.plot(*_thin(compute_curve(column, wrong)), color=colour, ls=dashes, lw=1.4)
        areas = {name: roc_auc_score(wrong, column) for name, column in columns.items()}
        best = max(areas, key=areas.__getitem__)
        axes.set_title(f"{stage}: best is {best} ({areas[best]:.3f})", fontsize=9)
        _draw_stars(axes, [run], EITHER, "what the run decides")
    for name, (colour, dashes) in strokes.items():
        panels[0].plot([], [], color=colour, ls=dashes, lw=1.6, label=name)
    add_legend(figure)
    return figure


def read_scores(run: Result) -> dict[str, dict[str, NDArray[Any]]]:
    """Each detector's score of each sample, by the stage whose evidence it looked at."""
    stages = [stage["stage"] for stage in run.summary["stages"]]
    path = run.folder / "scores.csv"
    if not path.exists():
        return {stage: {"split's loss": read_split(run, stage)["losses"]} for stage in stages}
    with explain_read_errors(path):
        table = pd.read_csv(path)
    scores: dict[str, dict[str, NDArray[Any]]] = {}
    for column in table.columns:
        stage, colon, name = column.partition(":")
        if colon:
            scores.setdefault(stage, {})[name] = table[column].to_numpy()
    return {stage: columns for stage, columns in scores.items() if stage in stages} or scores
