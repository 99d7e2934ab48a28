"""Between which classes labels went wrong, as it was and as the model sees it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drpl.report.load import read_samples
from drpl.report.style import CLEAN, INK, make_panels
from drpl.runs.folder import Result

ANNOTATED = 12  # classes up to which every cell shows its number
NAMED = 50  # classes up to which every row and column shows its name
LONGEST = 14  # letters of a class name
# From nothing to blue, never so dark that ink cannot be read on it, on light and on dark.
SHADES = LinearSegmentedColormap.from_list("shades", [f"{CLEAN}00", f"{CLEAN}a6"])


def shorten_name(name: str) -> str:
    """A class name that leaves room for others."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def compute_transitions(rows: NDArray[Any], given: NDArray[Any], classes: int) -> NDArray[Any]:
    """Which share of each row's class was given which label; nan where a class has no sample."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (rows, given), 1)
    sums = counts.sum(1, keepdims=True)
    shares: NDArray[Any] = np.full_like(counts, np.nan)
    np.divide(counts, sums, out=shares, where=sums > 0)
    return shares


def draw_transitions(run: Result, title: str) -> Figure | None:
    """The true transition matrix, where it is known, beside the one by the model's predictions."""
    samples, classes = read_samples(run), run.summary["classes"]
    if samples is None:
        return None
    given, found = samples["given"], {}
    if "true" in samples:
        inside = samples["in_distribution"].astype(bool)
        text = "true" if inside.all() else "true, images of these classes only"
        found[text] = compute_transitions(samples["true"][inside], given[inside], len(classes))
    found["estimated: by the model"] = compute_transitions(
        samples["suggested"], given, len(classes)
    )
    side = min(5.2, max(3.2, 0.38 * len(classes)))
    size = (side + 0.4, side - 0.2)
    figure, panels = make_panels(len(found), title, "given label", "what an image shows", size=size)
    for axes, (text, matrix) in zip(panels, found.items(), strict=True):
        axes.set_title(text, fontsize=9)
        draw_matrix(axes, matrix, classes, classes)
    return figure


def draw_matrix(
    axes: Axes, matrix: NDArray[Any], rows: Sequence[str], columns: Sequence[str]
) -> None:
    """The matrix as shades of blue, with numbers where there is room."""
    axes.grid(visible=False)
    shares = np.nan_to_num(matrix)
    if len(columns) <= NAMED:
        edges = [np.arange(n + 1) - 0.5 for n in (len(columns), len(rows))]
        axes.pcolormesh(*edges, shares, cmap=SHADES, vmin=0, vmax=1, lw=0)
        axes.invert_yaxis()
        size = 8 if len(columns) <= 20 else 5.5
        turned = 90 if max(map(len, columns)) > 3 else 0
        names = map(shorten_name, columns)
        axes.set_xticks(range(len(columns)), names, rotation=turned, fontsize=size)
        axes.set_yticks(range(len(rows)), map(shorten_name, rows), fontsize=size)
    else:  # too many for shapes of their own
        axes.imshow(shares, cmap=SHADES, vmin=0, vmax=1, interpolation="none", aspect="auto")
    if len(columns) <= ANNOTATED:
        for (a, b), value in np.ndenumerate(matrix):
            if value >= 0.005:
                axes.text(b, a, f"{value:.2f}", ha="center", va="center", fontsize=7, color=INK)
