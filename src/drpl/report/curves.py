"""What changes over epochs: accuracy of all methods, losses of clean and noisy samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from drpl.report.runs import arrays, by_method, document, observed, parts, tracked, wrong
from drpl.report.style import CLEAN, EITHER, INK, NOISY, PAPER, head, legend, panels
from drpl.runs.folder import Result

ROLES = {"clean": (CLEAN, "-"), "noisy": (NOISY, "--"), "either": (EITHER, "-")}
BANDS = ((10, 90, 0.16), (25, 75, 0.28))  # percentiles and how dark between them
MOST = 20_000  # samples of a stage that the bands are taken from, evenly


def accuracy(
    runs: Sequence[Result], strokes: Mapping[str, tuple[str, str]], title: str
) -> Figure | None:
    """Test accuracy after every epoch of every method, mean over seeds; last and best marked."""
    tested = [run for run in runs if run.accuracy["last"] is not None]
    if not tested:
        return None
    figure, (axes,) = panels(
        1, title, "epoch, all stages one after another", "test accuracy (%)", size=(5.6, 3.4)
    )
    for method, seeds in by_method(tested).items():
        colour, stroke = strokes[method]
        curve = mean_curve([[row["accuracy"] for row in run.history] for run in seeds])
        epochs = np.arange(1, len(curve) + 1)
        axes.plot(epochs, curve, color=colour, ls=stroke, lw=1.3, alpha=0.85)
        last, best = (np.mean([run.accuracy[key] for run in seeds]) for key in ("last", "best"))
        begin = min(first_of_last_stage(run) for run in seeds)
        top = begin + int(np.argmax(curve[begin:]))
        axes.plot(epochs[-1], curve[-1], "o", color=colour, ms=5, mec=PAPER, mew=0.5, zorder=5)
        axes.plot(epochs[top], curve[top], "*", color=colour, ms=10, mec=PAPER, mew=0.5, zorder=6)
        text = f"{method}: {last:.1f} last, {best:.1f} best"
        axes.plot([], [], color=colour, ls=stroke, lw=1.5, label=text)
    marks = [
        Line2D([], [], marker="o", ls="", color=INK, ms=5, label="after the last epoch"),
        Line2D([], [], marker="*", ls="", color=INK, ms=9, label="best epoch of the last stage"),
    ]
    # The first epochs of every stage are far below what matters.
    lowest = min(float(run.accuracy["last"] or 0) for run in tested)
    axes.set_ylim(bottom=max(axes.get_ylim()[0], lowest - 25))
    legend(figure, [*axes.get_legend_handles_labels()[0], *marks], **beside())
    figure.set_size_inches(8.6, max(4.2, 0.19 * len(by_method(tested)) + 1.6))
    return figure


def beside() -> dict[str, Any]:
    """Where the key of a figure with one large panel goes."""
    return {"loc": "outside right upper", "ncols": 1}


def mean_curve(rows: Sequence[Sequence[float]]) -> NDArray[Any]:
    """Mean over the seeds that got so far. [epochs]"""
    longest = max(map(len, rows))
    table = np.full((len(rows), longest), np.nan)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    found: NDArray[Any] = np.nanmean(table, axis=0)
    return found


def first_of_last_stage(run: Result) -> int:
    """How many epochs came before the stage that gives the model."""
    last = run.history[-1]["stage"]
    return sum(row["stage"] != last for row in run.history)


def losses(runs: Sequence[Result], title: str) -> Figure | None:
    """Median and quantiles of clean and noisy samples' losses, a panel for each stage.

    None where no run observed its losses more than once.
    """
    wanted = [
        (method, stage, seeds)
        for method, seeds in by_method(runs).items()
        for stage in tracked(seeds[0])
    ]
    if not wanted:
        return None
    columns = 4 if len(wanted) > 6 else 3
    figure, every = panels(
        len(wanted),
        title,
        "epoch of the stage",
        "loss (nats)",
        columns=columns,
        size=(2.6, 1.9),
    )
    for axes, (method, stage, seeds) in zip(every, wanted, strict=True):
        epochs = None
        for role, table in gathered(seeds, stage).items():
            colour, stroke = ROLES[role]
            epochs = observed(seeds[0], stage, len(table))
            for low, high, alpha in BANDS:
                edges = np.percentile(table, [low, high], axis=1)
                label = f"{NAMES[role]}, {low} to {high} %"
                axes.fill_between(epochs, *edges, color=colour, alpha=alpha, lw=0, label=label)
            middle = np.median(table, axis=1)
            label = f"{NAMES[role]}, median"
            axes.plot(epochs, middle, color=colour, ls=stroke, lw=1.6, label=label)
        begin = document(seeds[0], "config.toml").get("settings", {}).get(stage, {})
        if isinstance(begin, dict) and "begin" in begin:
            axes.axvline(begin["begin"], color=INK, ls=":", lw=1, label="then labels are replaced")
        head(axes, method if stage == "train" else f"{method}, {stage}")
        axes.set_ylim(bottom=0)
    legend(figure)
    return figure


NAMES = {"clean": "clean", "noisy": "noisy", "either": "all samples"}


def gathered(seeds: Sequence[Result], stage: str) -> dict[str, NDArray[Any]]:
    """Losses of all seeds together, by role. [observations, samples]"""
    found: dict[str, list[NDArray[Any]]] = {}
    for run in seeds:
        table = (arrays(run, f"evidence/{stage}.npz", "losses") or {}).get("losses")
        if table is None:
            continue
        step = max(1, table.shape[1] * len(seeds) // MOST)
        for _, role, mask in parts(wrong(run), table.shape[1]):
            found.setdefault(role, []).append(table[:, mask][:, ::step])
    if "either" in found and len(found) > 1:  # some seeds know the truth only: keep to those
        del found["either"]
    rows = max(len(table) for tables in found.values() for table in tables)
    whole = {role: [t for t in tables if len(t) == rows] for role, tables in found.items()}
    joined = {role: np.concatenate(tables, axis=1) for role, tables in whole.items() if tables}
    return {role: table for role, table in joined.items() if table.shape[1]}
