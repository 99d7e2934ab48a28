"""Images beside the maps of where a model sees their given label and another class."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drpl.report.style import Picture, styled

COLOURS = "viridis"  # its order can be seen in every kind of colour vision, and in grey
SIDE = 1.9  # inches of an image
LETTERS = 24  # of a class's name


@dataclass(frozen=True)
class Sight:
    """An image and the maps of two classes on it."""

    id: int
    path: str
    pixels: NDArray[Any]  # uint8 [H, W, 1 or 3]
    given: str
    p_given: float
    given_map: NDArray[Any]  # [h, w], as it comes: its mean and the bias are the logit
    role: str  # of the other class: true, suggested, next best
    other: str
    p_other: float
    other_map: NDArray[Any]
    shows: str  # what is on the image; empty where nobody knows
    flagged: bool


def drawn(sights: Sequence[Sight], title: str) -> tuple[bytes, str]:
    """PNG and SVG: a row an image, its two maps beside it."""
    size = (3 * SIDE + 1.2, len(sights) * (SIDE + 0.45) + 0.5)
    with styled():
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(sights), 3, squeeze=False)
    for one, (first, second, third) in zip(sights, grid, strict=True):
        show(first, one.pixels)
        first.set_title(heading(f"image {one.id}", one.shows and f"shows: {one.shows}"))
        for axes, values, role, name, p in (
            (second, one.given_map, "given", one.given, one.p_given),
            (third, one.other_map, one.role, one.other, one.p_other),
        ):
            overlay(axes, one.pixels, values)
            axes.set_title(heading(f"{role}: {name}", f"p = {p:.3f}"))
    for axes in grid.flat:
        axes.title.set_fontsize(8)
    figure.suptitle(shorten(title, 72, placeholder=" …"), fontsize=10)
    scale = figure.colorbar(
        ScalarMappable(cmap=COLOURS), ax=list(grid.flat), shrink=min(1.0, 2 / len(sights))
    )
    scale.set_ticks([0, 1], labels=["least", "most"])
    scale.set_label("evidence for the class, within its map")
    about = "Images beside the maps of where a model sees two classes."
    return Picture("look", title, about, figure).both()


def heading(first: str, second: str) -> str:
    """Two lines, none too long."""
    return "\n".join(shorten(text, LETTERS + 8, placeholder=" …") for text in (first, second))


def show(axes: Axes, pixels: NDArray[Any]) -> None:
    """An image as it is."""
    axes.set_axis_off()
    axes.imshow(
        pixels.squeeze(2) if pixels.shape[2] == 1 else pixels, cmap="gray", vmin=0, vmax=255
    )


def overlay(axes: Axes, pixels: NDArray[Any], values: NDArray[Any]) -> None:
    """A map, from its least to its most, over the image in grey."""
    show(axes, pixels.mean(2, keepdims=True))
    low, high = values.min(), values.max()
    height, width = pixels.shape[:2]
    axes.imshow(
        (values - low) / max(high - low, np.finfo(np.float32).tiny),
        cmap=colormaps[COLOURS],
        vmin=0,
        vmax=1,
        alpha=0.6,
        interpolation="bilinear",
        extent=(-0.5, width - 0.5, height - 0.5, -0.5),
    )
