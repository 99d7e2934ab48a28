"""How well methods tell clean from noisy labels: ROC curves in the paper's polarity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from drpl.reporting.figures import COLOURS, canvas, png_and_svg
from drpl.result import Result

ACROSS = np.linspace(0, 1, 501)  # where the curves of several seeds are averaged
STYLES = ("-", "-.")  # of final curves; the second when the colours are used up

Curve = tuple[NDArray[Any], NDArray[Any]]  # noisy kept, clean kept


def roc(results: Sequence[Result]) -> tuple[bytes, str] | None:
    """PNG and SVG for runs under one noise: a curve a method, and one for each earlier stage.

    Curves are means over seeds; stars are the decisions that the method takes, one a seed. None
    where the truth is not known, or all labels are right.
    """
    judged = [result for result in results if (result.detection or {}).get("auroc") is not None]
    if not judged:
        return None
    s = judged[0].summary
    title = f"Labels kept: {s['dataset']}, {s['noise']['spec'] or 'its own noise'}"
    figure, axes = canvas(title, "noisy labels kept (FPR)", "clean labels kept (TPR)")
    figure.set_size_inches(6.4, 5.2)
    axes.plot([0, 1], [0, 1], color="#999999", lw=0.8, ls=":")
    for k, method in enumerate(dict.fromkeys(result.summary["method"] for result in judged)):
        runs = [result for result in judged if result.summary["method"] == method]
        draw(axes, runs, method, COLOURS[k % len(COLOURS)], STYLES[k // len(COLOURS) % 2])
    axes.set(xlim=(-0.01, 1), ylim=(0, 1.01))
    axes.legend(fontsize="small", loc="lower right")
    return png_and_svg(figure)


def draw(axes: Axes, runs: Sequence[Result], method: str, colour: str, style: str) -> None:
    """The curves of a method: dashed after each stage but the last, whole at the end."""
    stages = [stage["stage"] for stage in runs[0].summary["stages"]]
    for stage in stages[:-1]:
        curve = averaged([staged(run, stage) for run in runs])
        axes.plot(*curve, color=colour, lw=1.1, ls="--", label=f"{method}, after {stage}")
    area = np.mean([(run.detection or {})["auroc"] for run in runs])
    last = f", after {stages[-1]}" if len(stages) > 1 else ""
    curve = averaged([final(run) for run in runs])
    axes.plot(*curve, color=colour, lw=1.8, ls=style, label=f"{method}{last} (AUROC {area:.3f})")
    points = np.array([[(run.detection or {})[key] for run in runs] for key in ("fpr", "tpr")])
    axes.plot(*points, color=colour, marker="*", ms=12, mec="white", mew=0.6, ls="", zorder=5)


def staged(run: Result, stage: str) -> Curve:
    """By the losses that a stage's split was decided on."""
    with np.load(run.folder / "splits" / f"{stage}.npz") as arrays:
        losses = arrays["losses"]
    with np.load(run.folder / "samples.npz") as arrays:
        return curved(losses, arrays["wrong"])


def final(run: Result) -> Curve:
    """By the losses that decided in the end."""
    with np.load(run.folder / "samples.npz") as arrays:
        return curved(arrays["loss"], arrays["wrong"])


def curved(losses: NDArray[Any], wrong: NDArray[Any]) -> Curve:
    """Labels are kept from the lowest loss upwards: the share of noisy and of clean ones so far."""
    noisy_kept, clean_kept, _ = roc_curve(~wrong.astype(bool), -losses)
    return noisy_kept, clean_kept


def averaged(curves: Sequence[Curve]) -> Curve:
    """The mean height of several curves; a single one stays as it is."""
    if len(curves) == 1:
        return curves[0]
    heights = np.mean([np.interp(ACROSS, *curve) for curve in curves], axis=0)
    return np.concatenate([[0], ACROSS]), np.concatenate([[0], heights])
