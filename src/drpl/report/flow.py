"""What relabelling did: how samples move from their given label to what networks see in them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from drpl.report.load import Group, group_samples, read_arrays, read_samples, read_wrong
from drpl.report.matrices import shorten_name
from drpl.report.style import INK, ROLES, add_legend, make_panels
from drpl.runs.folder import Result

SHOWN = 12  # classes, those that most samples leave or reach; the others are merged
THIN = 0.0005  # share of the samples below which a ribbon is not drawn
GAP, BAR = 0.016, 0.035
RIBBON = [Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3]


def read_stations(run: Result) -> dict[str, NDArray[Any]]:
    """The class of every sample: its label, as stages with a split see it, as the model does."""
    samples = read_samples(run)
    if samples is None:
        return {}
    stations = {"given label": samples["given"]}
    last = run.history[-1]["stage"] if run.history else ""
    for stage in (stage["stage"] for stage in run.summary["stages"]):
        evidence = read_arrays(run, f"evidence/{stage}.npz", "probs")
        if evidence is not None and stage != last:
            stations[f"seen after {stage}"] = evidence["probs"].argmax(1)
    return stations | {"seen by the model": samples["suggested"]}


def draw_flow(run: Result, title: str) -> Figure | None:
    """Ribbons between classes, clean and noisy samples apart."""
    stations = read_stations(run)
    if not stations:
        return None
    rows, names = merge_classes(stations, list(run.summary["classes"]))
    tables = [rows[table] for table in stations.values()]
    size = (2.6 * len(tables), max(3.6, 0.34 * len(names) + 1))
    across, up = "from the given label to what the model sees", "samples, stacked by class"
    figure, (axes,) = make_panels(1, title, across, up, size=size)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_yticks([])
    axes.set_xticks(range(len(tables)), list(stations))
    axes.tick_params(length=0)
    axes.set(xlim=(-0.55, len(tables) - 0.45), ylim=(1 + GAP * len(names), -GAP))
    groups = group_samples(read_wrong(run), len(tables[0]))
    sides = [-1, *[0] * (len(tables) - 2), 1]  # of a bar where its name stands
    begins = [
        _draw_bars(axes, k, table, names, side)
        for k, (table, side) in enumerate(zip(tables, sides, strict=True))
    ]
    for k in range(len(tables) - 1):
        _draw_ribbons(axes, k, tables[k : k + 2], begins[k : k + 2], groups)
    patches = [Rectangle((0, 0), 1, 1, fc=ROLES[r], alpha=0.5, label=n) for n, r, _ in groups]
    add_legend(figure, patches)
    return figure


def merge_classes(
    stations: dict[str, NDArray[Any]], classes: list[str]
) -> tuple[NDArray[Any], list[str]]:
    """Which row each class is drawn in, and the rows' names."""
    if len(classes) <= SHOWN:
        return np.arange(len(classes)), classes
    first, *_, last = stations.values()
    moved = first != last
    traffic = np.bincount(np.concatenate([first[moved], last[moved]]), minlength=len(classes))
    busy = np.sort(np.argsort(-traffic, kind="stable")[: SHOWN - 1])
    rows = np.full(len(classes), SHOWN - 1)
    rows[busy] = np.arange(SHOWN - 1)
    others = f"{len(classes) - SHOWN + 1} other classes"
    return rows, [*(classes[c] for c in busy), others]


def _draw_bars(
    axes: Axes, k: int, table: NDArray[Any], names: list[str], side: int
) -> NDArray[Any]:
    """Draw a station; where each of its rows begins. [rows]"""
    shares = np.bincount(table, minlength=len(names)) / len(table)
    begins = np.concatenate([[0], np.cumsum(shares + GAP)[:-1]])
    align: dict[str, Any] = {"va": "center", "ha": "right" if side < 0 else "left"}
    for name, begin, share in zip(names, begins, shares, strict=True):
        axes.add_patch(Rectangle((k - BAR / 2, begin), BAR, share, fc=INK, ec="none"))
        if side:
            place = k + side * 1.2 * BAR, begin + share / 2
            axes.text(*place, shorten_name(name), fontsize=8, color=INK, **align)
    return begins


def _draw_ribbons(
    axes: Axes, k: int, tables: list[NDArray[Any]], begins: list[NDArray[Any]], groups: list[Group]
) -> None:
    """Draw what goes from one station to the next."""
    (here, there), (left, right) = tables, (begin.copy() for begin in begins)
    rows = len(left)
    x0, x1 = k + BAR / 2, k + 1 - BAR / 2
    xs = np.array([x0, k + 0.5, k + 0.5, x1])
    for _, role, mask in groups:
        counts = np.bincount(here[mask] * rows + there[mask], minlength=rows * rows)
        for (a, b), count in np.ndenumerate(counts.reshape(rows, rows)):
            high = count / len(here)
            y0, y1 = left[a], right[b]
            left[a] += high
            right[b] += high
            if high <= THIN:
                continue
            upper = np.column_stack([xs, [y0, y0, y1, y1]])
            points = np.concatenate([upper, upper[::-1] + np.array([0, high])])
            strong = 0.3 if a == b else 0.6  # what moved is what matters
            outline = Outline(points, RIBBON)
            axes.add_patch(PathPatch(outline, fc=ROLES[role], alpha=strong, ec="none"))
