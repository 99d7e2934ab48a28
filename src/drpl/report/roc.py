"""How well methods and detectors tell clean from noisy labels: curves in the paper's polarity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from drpl.files import explain_read_errors
from drpl.report.curves import beside
from drpl.report.runs import by_method, samples, split, wrong
from drpl.report.style import EITHER, PAPER, head, legend, panels, strokes
from drpl.runs.folder import Result

ACROSS = np.linspace(0, 1, 201)  # where the curves of several seeds are averaged
NEAR = 0.002  # what no eye can see on a curve

Curve = tuple[NDArray[Any], NDArray[Any]]  # noisy kept, clean kept
AXES = ("noisy labels kept by mistake, share (FPR)", "clean labels kept, share (TPR)")


def judged(runs: Sequence[Result]) -> list[Result]:
    """Runs for which an area under the curve exists: the truth is known, and some of it is bad."""
    return [run for run in runs if (run.detection or {}).get("auroc") is not None]


def methods(
    runs: Sequence[Result], look: Mapping[str, tuple[str, str]], title: str
) -> Figure | None:
    """A curve a method under one noise, and a thin one for each earlier stage.

    Curves are means over seeds; stars are the decisions that the method takes, one a seed. None
    where the truth is not known, or all labels are right.
    """
    known = by_method(judged(runs))
    if not known:
        return None
    figure, (axes,) = panels(1, title, *AXES, size=(5.0, 4.2))
    diagonal(axes)
    for method, seeds in known.items():
        draw(axes, seeds, method, *look[method])
    axes.plot([], [], "*", color=EITHER, ms=11, mec=PAPER, label="what the method decides")
    legend(figure, **beside())
    entries = len(axes.get_legend_handles_labels()[0])
    figure.set_size_inches(8.8, max(4.6, 0.19 * entries + 1.2))
    return figure


def diagonal(axes: Axes) -> None:
    """What guessing gives."""
    axes.plot([0, 1], [0, 1], color=EITHER, lw=0.8, ls=":", label="guessing (AUROC 0.500)")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))


def draw(axes: Axes, seeds: Sequence[Result], method: str, colour: str, stroke: str) -> None:
    """The curves of a method: thin after each stage but the last, thick at the end."""
    stages = [stage["stage"] for stage in seeds[0].summary["stages"]]
    for stage in stages[:-1]:
        curve = averaged([staged(run, stage) for run in seeds])
        label = f"{method}, after {stage}"
        axes.plot(*curve, color=colour, lw=0.8, ls=(0, (4, 3)), label=label)
    area = np.mean([(run.detection or {})["auroc"] for run in seeds])
    last = f", after {stages[-1]}" if len(stages) > 1 else ""
    curve = averaged([final(run) for run in seeds])
    label = f"{method}{last} (AUROC {area:.3f})"
    axes.plot(*curve, color=colour, lw=1.7, ls=stroke, label=label)
    stars(axes, seeds, colour)


def stars(axes: Axes, runs: Sequence[Result], colour: str, label: str | None = None) -> None:
    """Where the decisions of runs lie."""
    points = np.array([[(run.detection or {})[key] for run in runs] for key in ("fpr", "tpr")])
    axes.plot(
        *points, color=colour, marker="*", ms=12, mec=PAPER, mew=0.6, ls="", zorder=5, label=label
    )


def staged(run: Result, stage: str) -> Curve:
    """By the losses that a stage's split was decided on."""
    return curved(split(run, stage)["losses"], truth(run))


def final(run: Result) -> Curve:
    """By the losses that decided in the end."""
    return curved((samples(run) or {})["loss"], truth(run))


def truth(run: Result) -> NDArray[np.bool_]:
    """Which labels are wrong, of a run that knows it."""
    known = wrong(run)
    if known is None:
        raise ValueError(f"{run.folder} does not know which labels are wrong")
    return known


def curved(suspicion: NDArray[Any], known: NDArray[Any]) -> Curve:
    """Labels are kept from the least suspicious up: the share of noisy and of clean ones so far."""
    noisy_kept, clean_kept, _ = roc_curve(~known.astype(bool), -suspicion)
    return noisy_kept, clean_kept


def averaged(curves: Sequence[Curve]) -> Curve:
    """The mean height of several curves; a single one stays as it is, without needless points."""
    if len(curves) == 1:
        return thinned(curves[0])
    heights = np.mean([np.interp(ACROSS, *curve) for curve in curves], axis=0)
    return np.concatenate([[0], ACROSS]), np.concatenate([[0], heights])


def thinned(curve: Curve) -> Curve:
    """The curve without points that lie nearer to the one before than anybody sees."""
    steps = np.floor(np.stack(curve) / NEAR).astype(int)
    new = np.ones(steps.shape[1], bool)
    new[1:] = (np.diff(steps, axis=1) != 0).any(axis=0)
    new[-1] = True
    return curve[0][new], curve[1][new]


def detectors(run: Result, title: str) -> Figure | None:
    """Every detector of `scores.csv`, a panel a stage, and the run's own decision.

    None where the truth is not known; without `scores.csv` the splits' own losses are drawn.
    """
    if not judged([run]):
        return None
    known, found = truth(run), suspicions(run)
    names = list(dict.fromkeys(name for stage in found.values() for name in stage))
    look = strokes(names)
    figure, every = panels(len(found), title, *AXES, size=(3.3, 3.0))
    for axes, (stage, columns) in zip(every, found.items(), strict=True):
        diagonal(axes)
        for name, suspicion in columns.items():
            colour, stroke = look[name]
            axes.plot(*thinned(curved(suspicion, known)), color=colour, ls=stroke, lw=1.4)
        areas = {name: area(suspicion, known) for name, suspicion in columns.items()}
        best = max(areas, key=areas.__getitem__)
        head(axes, f"{stage}: best is {best} ({areas[best]:.3f})")
        stars(axes, [run], EITHER, "what the run decides")
    for name, (colour, stroke) in look.items():
        every[0].plot([], [], color=colour, ls=stroke, lw=1.6, label=name)
    legend(figure)
    return figure


def area(suspicion: NDArray[Any], known: NDArray[Any]) -> float:
    """AUROC."""
    return float(roc_auc_score(known, suspicion))


def suspicions(run: Result) -> dict[str, dict[str, NDArray[Any]]]:
    """What each detector says of each sample, by the stage whose evidence it looked at."""
    stages = [stage["stage"] for stage in run.summary["stages"]]
    path = run.folder / "scores.csv"
    if not path.exists():
        return {stage: {"split's loss": split(run, stage)["losses"]} for stage in stages}
    with explain_read_errors(path):
        table = pd.read_csv(path)
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for column in table.columns:
        stage, colon, name = column.partition(":")
        if colon:
            found.setdefault(stage, {})[name] = table[column].to_numpy()
    split_on = {stage: columns for stage, columns in found.items() if stage in stages}
    return split_on or found
