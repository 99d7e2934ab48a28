"""The picture of a corrupted data set: its transition matrix and some of its wrong samples."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drpl.reporting.figures import CLEAN, NOISY

ANNOTATED = 12  # classes up to which every cell shows its number
NAMED = 50  # classes up to which every row and column shows its name
ACROSS = 6  # samples side by side
LONGEST = 14  # letters of a class name

Sample = tuple[NDArray[Any], str, str, bool]  # image, given label, true class, from outside


def picture(
    title: str,
    matrix: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    samples: Sequence[Sample],
) -> bytes:
    """PNG: the realised matrix (rows true classes, columns given labels) beside the samples."""
    down = max(1, -(-len(samples) // ACROSS))
    figure = plt.figure(
        figsize=(13.5 if samples else 7, max(6.4, 1.3 * down)), layout="constrained"
    )
    figure.suptitle(title, fontsize=12)
    if samples:
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.1, 1))[0]
        draw_samples(right, down, samples)
        draw_matrix(left.subplots(), matrix, rows, columns)
    else:
        draw_matrix(figure.subplots(), matrix, rows, columns)
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # a box stands for what the font cannot write
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()


def draw_matrix(
    axes: Axes, matrix: NDArray[Any], rows: Sequence[str], columns: Sequence[str]
) -> None:
    """The matrix as shades of blue, with numbers where there is room."""
    shades = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    axes.figure.colorbar(shades, ax=axes, shrink=0.7, label="share of the row")
    axes.set(title="What each true class is labelled", xlabel="given label", ylabel="true class")
    if len(columns) <= NAMED:
        size = 9 if len(columns) <= 20 else 6
        turned = 90 if max(map(len, columns)) > 3 else 0
        axes.set_xticks(range(len(columns)), map(short, columns), rotation=turned, fontsize=size)
        axes.set_yticks(range(len(rows)), map(short, rows), fontsize=size)
    if len(columns) <= ANNOTATED:
        for (a, b), value in np.ndenumerate(matrix):
            if value >= 0.005:
                shade = "white" if value > 0.6 else "black"
                axes.text(b, a, f"{value:.2f}", ha="center", va="center", fontsize=8, color=shade)


def draw_samples(figure: Figure, down: int, samples: Sequence[Sample]) -> None:
    """A contact sheet; each caption has the given label above what is really shown."""
    key = " (blue: from outside)" if any(outside for *_, outside in samples) else ""
    figure.suptitle(f"Corrupted samples: given label ← what is shown{key}", fontsize=12)
    grid = figure.subplots(down, ACROSS, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, (image, given, shown, outside) in zip(grid.flat, samples, strict=False):
        axes.imshow(image, cmap="gray", vmin=0, vmax=255)
        caption = f"{short(given)} ← {short(shown)}"
        if len(caption) > 12:
            caption = f"{short(given)}\n← {short(shown)}"
        axes.set_title(caption, fontsize=8, color=CLEAN if outside else NOISY, pad=3)


def short(name: str) -> str:
    """A class name that leaves room for others."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
