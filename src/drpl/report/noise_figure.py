"""The figure of a corrupted data set: its transition matrix and some of its wrong samples."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from drpl.report.matrices import draw_matrix, shorten_name
from drpl.report.style import CLEAN, NOISY, Picture, use_style

ACROSS = 6  # samples side by side

Sample = tuple[NDArray[Any], str, str, bool]  # image, given label, true class, from outside


def draw_noise(
    title: str,
    matrix: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    samples: Sequence[Sample],
) -> bytes:
    """PNG: the realised matrix (rows true classes, columns given labels) beside the samples."""
    down = max(1, -(-len(samples) // ACROSS))
    with use_style():
        size = (13.5 if samples else 7, max(6.4, 1.3 * down))
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(title, fontsize=12)
        left: Figure | SubFigure = figure
        if samples:
            left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.1, 1))[0]
            _draw_samples(right, down, samples)
        axes = left.subplots()
        draw_matrix(axes, matrix, rows, columns)
        axes.set(title="What each true class is labelled", xlabel="given label")
        axes.set_ylabel("true class (numbers are shares of the row)")
    return Picture("noise", title, figure).render_png(dpi=110)


def _draw_samples(figure: Figure | SubFigure, down: int, samples: Sequence[Sample]) -> None:
    """A contact sheet; each caption has the given label above what is really shown."""
    key = " (blue: from outside)" if any(outside for *_, outside in samples) else ""
    figure.suptitle(f"Corrupted samples: given label ← what is shown{key}", fontsize=12)
    grid = figure.subplots(down, ACROSS, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, (image, given, shown, outside) in zip(grid.flat, samples, strict=False):
        axes.imshow(image, cmap="gray", vmin=0, vmax=255)
        caption = f"{shorten_name(given)} ← {shorten_name(shown)}"
        if len(caption) > 12:
            caption = caption.replace(" ← ", "\n← ")
        axes.set_title(caption, fontsize=8, color=CLEAN if outside else NOISY, pad=3)
