"""What changes over epochs: accuracy of all methods, losses of clean and noisy samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from drpl.report.load import (
    find_tracked,
    group_by_method,
    group_samples,
    infer_epochs,
    read_arrays,
    read_document,
    read_wrong,
)
from drpl.report.style import (
    BESIDE,
    COLOURS,
    INK,
    PAPER,
    ROLES,
    Strokes,
    add_legend,
    make_panels,
)
from drpl.runs.folder import Result

NAMES = {"clean": "clean", "noisy": "noisy", "either": "all samples"}
BANDS = ((10, 90, 0.16), (25, 75, 0.28))  # percentiles and how dark between them
TRAINED = {  # columns of the history that are training accuracies: what they are by, how drawn
    "train_accuracy": ("by the given labels", COLOURS[2], "-"),
    "target_accuracy": ("by what was taught", COLOURS[3], "--"),
}
MOST = 20_000  # samples of a stage that the bands are taken from, evenly


def draw_accuracy(runs: Sequence[Result], strokes: Strokes, title: str) -> Figure | None:
    """Test accuracy after every epoch of every method, mean over seeds; last and best marked."""
    tested = [run for run in runs if run.history and run.accuracy["last"] is not None]
    if not tested:
        return None
    figure, (axes,) = make_panels(
        1, title, "epoch, all stages one after another", "test accuracy (%)", size=(5.6, 3.4)
    )
    methods = group_by_method(tested)
    for method, seeds in methods.items():
        _draw_method(axes, method, seeds, *strokes[method])
    marks = [
        Line2D([], [], marker="o", ls="", color=INK, ms=5, label="after the last epoch"),
        Line2D([], [], marker="*", ls="", color=INK, ms=9, label="best epoch of the last stage"),
    ]
    # The first epochs of every stage are far below what matters.
    lowest = min(float(run.accuracy["last"] or 0) for run in tested)
    axes.set_ylim(bottom=max(axes.get_ylim()[0], lowest - 25))
    add_legend(figure, [*axes.get_legend_handles_labels()[0], *marks], **BESIDE)
    figure.set_size_inches(8.6, max(4.2, 0.19 * len(methods) + 1.6))
    return figure


def _draw_method(
    axes: Axes, method: str, seeds: Sequence[Result], colour: str, dashes: str
) -> None:
    """The mean over the seeds that got as far as an epoch, with its last and its best one."""
    rows = [[row["accuracy"] for row in run.history] for run in seeds]
    curve = pd.DataFrame(rows).mean().to_numpy()
    epochs = np.arange(1, len(curve) + 1)
    axes.plot(epochs, curve, color=colour, ls=dashes, lw=1.3, alpha=0.85)
    begin = min(_count_before_last_stage(run) for run in seeds)
    top = begin + int(np.argmax(curve[begin:]))
    axes.plot(epochs[-1], curve[-1], "o", color=colour, ms=5, mec=PAPER, mew=0.5, zorder=5)
    axes.plot(epochs[top], curve[top], "*", color=colour, ms=10, mec=PAPER, mew=0.5, zorder=6)
    last, best = (np.mean([run.accuracy[key] for run in seeds]) for key in ("last", "best"))
    text = f"{method}: {last:.1f} last, {best:.1f} best"
    axes.plot([], [], color=colour, ls=dashes, lw=1.5, label=text)


def _count_before_last_stage(run: Result) -> int:
    """How many epochs came before the stage that gives the model."""
    last = run.history[-1]["stage"]
    return sum(row["stage"] != last for row in run.history)


def draw_training(runs: Sequence[Result], _: Strokes, title: str) -> Figure | None:
    """Training accuracy over epochs, a panel for each stage, mean over seeds.

    Once by the given labels, once by what the stage was taught, pseudo-labels too. None where no
    run recorded it, as before version 0.2 none did.
    """
    stages = [
        (method, stage, [[row for row in run.history if row["stage"] == stage] for run in seeds])
        for method, seeds in group_by_method(runs).items()
        for stage in dict.fromkeys(row["stage"] for row in seeds[0].history)
        if any(row.get("train_accuracy") is not None for row in seeds[0].history)
    ]
    if not stages:
        return None
    columns = 4 if len(stages) > 6 else 3
    figure, panels = make_panels(
        *(len(stages), title, "epoch of the stage", "training accuracy (%)"),
        columns=columns,
        size=(2.6, 1.9),
    )
    for axes, (method, stage, seeds) in zip(panels, stages, strict=True):
        for key, (label, colour, dashes) in TRAINED.items():
            curve = pd.DataFrame([[row.get(key) for row in rows] for rows in seeds], dtype=float)
            epochs = np.arange(1, curve.shape[1] + 1)
            axes.plot(epochs, curve.mean().to_numpy(), color=colour, ls=dashes, label=label)
        axes.set_title(_name_panel(method, stage), fontsize=9)
    add_legend(figure)
    return figure


def _name_panel(method: str, stage: str) -> str:
    """The method, and its stage where it has several."""
    return method if stage == "train" else f"{method}, {stage}"


def draw_losses(runs: Sequence[Result], _: Strokes, title: str) -> Figure | None:
    """Median and quantiles of clean and noisy samples' losses, a panel for each stage.

    None where no run observed its losses more than once.
    """
    stages = [
        (method, stage, seeds)
        for method, seeds in group_by_method(runs).items()
        for stage in find_tracked(seeds[0])
    ]
    if not stages:
        return None
    columns = 4 if len(stages) > 6 else 3
    figure, panels = make_panels(
        len(stages), title, "epoch of the stage", "loss (nats)", columns=columns, size=(2.6, 1.9)
    )
    for axes, (method, stage, seeds) in zip(panels, stages, strict=True):
        for role, losses in _gather_losses(seeds, stage).items():
            _draw_bands(axes, infer_epochs(seeds[0], stage, len(losses)), losses, role)
        settings = read_document(seeds[0], "config.toml").get("settings", {}).get(stage, {})
        if isinstance(settings, dict) and "begin" in settings:
            label = "then labels are replaced"
            axes.axvline(settings["begin"], color=INK, ls=":", lw=1, label=label)
        axes.set_title(_name_panel(method, stage), fontsize=9)
        axes.set_ylim(bottom=0)
    add_legend(figure)
    return figure


def _draw_bands(axes: Axes, epochs: NDArray[Any], losses: NDArray[Any], role: str) -> None:
    """Median and percentiles of losses [observations, samples]."""
    colour, name = ROLES[role], NAMES[role]
    for low, high, alpha in BANDS:
        edges = np.percentile(losses, [low, high], axis=1)
        label = f"{name}, {low} to {high} %"
        axes.fill_between(epochs, *edges, color=colour, alpha=alpha, lw=0, label=label)
    dashes = "--" if role == "noisy" else "-"
    middle = np.median(losses, axis=1)
    axes.plot(epochs, middle, color=colour, ls=dashes, lw=1.6, label=f"{name}, median")


def _gather_losses(seeds: Sequence[Result], stage: str) -> dict[str, NDArray[Any]]:
    """Losses of all seeds together, by role. [observations, samples]"""
    found: dict[str, list[NDArray[Any]]] = {}
    for run in seeds:
        table = (read_arrays(run, f"evidence/{stage}.npz", "losses") or {}).get("losses")
        if table is None:
            continue
        step = max(1, table.shape[1] * len(seeds) // MOST)
        for _, role, mask in group_samples(read_wrong(run), table.shape[1]):
            found.setdefault(role, []).append(table[:, mask][:, ::step])
    if "either" in found and len(found) > 1:  # some seeds know the truth only: keep to those
        del found["either"]
    rows = max(len(table) for tables in found.values() for table in tables)
    whole = {role: [t for t in tables if len(t) == rows] for role, tables in found.items()}
    joined = {role: np.concatenate(tables, axis=1) for role, tables in whole.items() if tables}
    return {role: table for role, table in joined.items() if table.shape[1]}
