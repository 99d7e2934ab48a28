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

from drpl.report.style import Picture, use_style

COLOURS = "viridis"  # its order can be seen in every kind of colour vision, and in grey
SIDE = 1.9  # inches of an image
LETTERS = 24  # of a class's name


@dataclass(frozen=True)
class CamView:
    """An image and the class activation maps of two classes on it."""

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


def draw_cam(views: Sequence[CamView], title: str) -> Picture:
    """A row an image, its two maps beside it."""
    size = (3 * SIDE + 1.2, len(views) * (SIDE + 0.45) + 0.5)
    with use_style():
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(views), 3, squeeze=False)
    for view, (first, second, third) in zip(views, grid, strict=True):
        _show(first, view.pixels)
        _set_title(first, f"image {view.id}", view.shows and f"shows: {view.shows}")
        for axes, values, role, name, p in (
            (second, view.given_map, "given", view.given, view.p_given),
            (third, view.other_map, view.role, view.other, view.p_other),
        ):
            _overlay(axes, view.pixels, values)
            _set_title(axes, f"{role}: {name}", f"p = {p:.3f}")
    figure.suptitle(shorten(title, 72, placeholder=" …"), fontsize=10)
    scale = figure.colorbar(
        ScalarMappable(cmap=COLOURS), ax=list(grid.flat), shrink=min(1.0, 2 / len(views))
    )
    scale.set_ticks([0, 1], labels=["least", "most"])
    scale.set_label("evidence for the class, within its map")
    return Picture("look", title, figure)


def _set_title(axes: Axes, *lines: str) -> None:
    text = "\n".join(shorten(line, LETTERS + 8, placeholder=" …") for line in lines)
    axes.set_title(text, fontsize=8)


def _show(axes: Axes, pixels: NDArray[Any]) -> None:
    """An image as it is."""
    axes.set_axis_off()
    axes.imshow(
        pixels.squeeze(2) if pixels.shape[2] == 1 else pixels, cmap="gray", vmin=0, vmax=255
    )


def _overlay(axes: Axes, pixels: NDArray[Any], values: NDArray[Any]) -> None:
    """A map, from its least to its most, over the image in grey."""
    _show(axes, pixels.mean(2, keepdims=True))
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
