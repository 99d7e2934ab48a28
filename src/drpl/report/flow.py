"""What relabelling did: how samples move from their given label to what networks see in them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from drpl.report.histograms import FILL
from drpl.report.matrices import short
from drpl.report.runs import arrays, parts, samples, wrong
from drpl.report.style import INK, legend, panels
from drpl.runs.folder import Result

SHOWN = 12  # classes, those that most samples leave or reach; the others are one heap
THIN = 0.0005  # share of the samples below which a ribbon is not drawn
GAP, BAR = 0.016, 0.035


def stations(run: Result) -> dict[str, NDArray[Any]]:
    """The class of every sample: its label, as stages with a split see it, as the model does."""
    table = samples(run)
    if table is None:
        return {}
    found = {"given label": table["given"]}
    last = run.history[-1]["stage"] if run.history else ""
    for stage in (stage["stage"] for stage in run.summary["stages"]):
        evidence = arrays(run, f"evidence/{stage}.npz", "probs")
        if evidence is not None and stage != last:
            found[f"seen after {stage}"] = evidence["probs"].argmax(1)
    return found | {"seen by the model": table["suggested"]}


def flow(run: Result, title: str) -> Figure | None:
    """Ribbons between classes, clean and noisy samples apart."""
    found = stations(run)
    if not found:
        return None
    classes = list(run.summary["classes"])
    groups, names = heaped(found, classes)
    tables = [groups[table] for table in found.values()]
    figure, (axes,) = panels(
        1,
        title,
        "from the given label to what the model sees",
        "samples, heaped by class",
        size=(2.6 * len(tables), max(3.6, 0.34 * len(names) + 1)),
    )
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_yticks([])
    axes.set_xticks(range(len(tables)), list(found))
    axes.tick_params(length=0)
    axes.set(xlim=(-0.55, len(tables) - 0.45), ylim=(1 + GAP * len(names), -GAP))
    masks = parts(wrong(run), len(tables[0]))
    places = [bars(axes, k, table, names, len(tables)) for k, table in enumerate(tables)]
    for k in range(len(tables) - 1):
        ribbons(axes, k, tables[k], tables[k + 1], places[k], places[k + 1], masks)
    handles = [Rectangle((0, 0), 1, 1, fc=FILL[role], alpha=0.5, label=n) for n, role, _ in masks]
    legend(figure, handles)
    return figure


def heaped(found: dict[str, NDArray[Any]], classes: list[str]) -> tuple[NDArray[Any], list[str]]:
    """Which row each class is drawn in, and the rows' names."""
    if len(classes) <= SHOWN:
        return np.arange(len(classes)), classes
    tables = list(found.values())
    moved = tables[0] != tables[-1]
    traffic = sum(np.bincount(t[moved], minlength=len(classes)) for t in (tables[0], tables[-1]))
    busy = np.sort(np.argsort(-np.asarray(traffic), kind="stable")[: SHOWN - 1])
    groups = np.full(len(classes), SHOWN - 1)
    groups[busy] = np.arange(SHOWN - 1)
    others = f"{len(classes) - SHOWN + 1} other classes"
    return groups, [*(classes[c] for c in busy), others]


def bars(axes: Axes, k: int, table: NDArray[Any], names: list[str], stations: int) -> NDArray[Any]:
    """Draw a station; where each of its rows begins. [rows]"""
    shares = np.bincount(table, minlength=len(names)) / len(table)
    begins = np.concatenate([[0], np.cumsum(shares + GAP)[:-1]])
    for name, begin, share in zip(names, begins, shares, strict=True):
        axes.add_patch(Rectangle((k - BAR / 2, begin), BAR, share, fc=INK, ec="none"))
        if k in (0, stations - 1):
            side = -1 if k == 0 else 1
            axes.text(
                k + side * 1.2 * BAR,
                begin + share / 2,
                short(name),
                fontsize=8,
                color=INK,
                va="center",
                ha="right" if side < 0 else "left",
            )
    return begins


def ribbons(
    axes: Axes,
    k: int,
    here: NDArray[Any],
    there: NDArray[Any],
    begins: NDArray[Any],
    ends: NDArray[Any],
    masks: list[tuple[str, str, Any]],
) -> None:
    """Draw what goes from one station to the next."""
    rows, count = len(begins), len(here)
    left, right = begins.copy(), ends.copy()
    x0, x1 = k + BAR / 2, k + 1 - BAR / 2
    middle = (x0 + x1) / 2
    codes = [Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3]
    for _, role, mask in masks:
        counts = np.bincount(here[mask] * rows + there[mask], minlength=rows * rows)
        for (a, b), number in np.ndenumerate(counts.reshape(rows, rows)):
            high = number / count
            y0, y1 = left[a], right[b]
            left[a] += high
            right[b] += high
            if high <= THIN:
                continue
            points = [
                (x0, y0),
                (middle, y0),
                (middle, y1),
                (x1, y1),
                (x1, y1 + high),
                (middle, y1 + high),
                (middle, y0 + high),
                (x0, y0 + high),
            ]
            strong = 0.3 if a == b else 0.6  # what moved is what matters
            outline = Outline(points, codes)  # type: ignore[arg-type]
            axes.add_patch(PathPatch(outline, fc=FILL[role], alpha=strong, ec="none"))
