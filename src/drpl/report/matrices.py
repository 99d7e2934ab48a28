"""Between which classes labels went wrong, as it was and as the model sees it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drpl.report.runs import samples
from drpl.report.style import CLEAN, INK, head, panels
from drpl.runs.folder import Result

ANNOTATED = 12  # classes up to which every cell shows its number
NAMED = 50  # classes up to which every row and column shows its name
LONGEST = 14  # letters of a class name
# From nothing to blue, never so dark that ink cannot be read on it, on light and on dark.
SHADES = LinearSegmentedColormap.from_list("shades", [f"{CLEAN}00", f"{CLEAN}a6"])


def short(name: str) -> str:
    """A class name that leaves room for others."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def transition(rows: NDArray[Any], given: NDArray[Any], classes: int) -> NDArray[Any]:
    """Which share of each row's class was given which label; nan where a class has no sample."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (rows, given), 1)
    sums = counts.sum(1, keepdims=True)
    shares: NDArray[Any] = np.full_like(counts, np.nan)
    np.divide(counts, sums, out=shares, where=sums > 0)
    return shares


def transitions(run: Result, title: str) -> Figure | None:
    """The true transition matrix, where it is known, beside the one by the model's predictions."""
    table, classes = samples(run), run.summary["classes"]
    if table is None:
        return None
    found: dict[str, NDArray[Any]] = {}
    rows = "what an image shows"
    if "true" in table:
        inside = table["in_distribution"].astype(bool)
        text = "true" if inside.all() else "true, images of these classes only"
        found[text] = transition(table["true"][inside], table["given"][inside], len(classes))
    found["estimated: by the model"] = transition(table["suggested"], table["given"], len(classes))
    side = min(5.2, max(3.2, 0.38 * len(classes)))
    figure, every = panels(len(found), title, "given label", rows, size=(side + 0.4, side - 0.2))
    for axes, (text, matrix) in zip(every, found.items(), strict=True):
        head(axes, text)
        draw_matrix(axes, matrix, classes, classes)
    return figure


def draw_matrix(
    axes: Axes, matrix: NDArray[Any], rows: Sequence[str], columns: Sequence[str]
) -> None:
    """The matrix as shades of blue, with numbers where there is room."""
    axes.grid(visible=False)
    if len(columns) <= NAMED:
        edges = [np.arange(n + 1) - 0.5 for n in (len(columns), len(rows))]
        axes.pcolormesh(*edges, np.nan_to_num(matrix), cmap=SHADES, vmin=0, vmax=1, lw=0)
        axes.invert_yaxis()
    else:  # too many for shapes of their own
        shown = np.nan_to_num(matrix)
        axes.imshow(shown, cmap=SHADES, vmin=0, vmax=1, interpolation="none", aspect="auto")
    if len(columns) <= NAMED:
        size = 8 if len(columns) <= 20 else 5.5
        turned = 90 if max(map(len, columns)) > 3 else 0
        axes.set_xticks(range(len(columns)), map(short, columns), rotation=turned, fontsize=size)
        axes.set_yticks(range(len(rows)), map(short, rows), fontsize=size)
    if len(columns) <= ANNOTATED:
        for (a, b), value in np.ndenumerate(matrix):
            if value >= 0.005:
                axes.text(b, a, f"{value:.2f}", ha="center", va="center", fontsize=7, color=INK)
