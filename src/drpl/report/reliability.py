"""Whether probabilities mean what they say, and what a review found, as figures."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from drpl.report.style import INK, Picture, add_legend, assign_strokes, make_panels

LARGEST = 180.0  # area of the dot of the fullest bin

Floats = NDArray[np.float64]


def draw_reliability(name: str, measured: Mapping[str, Floats]) -> Picture:
    """Share of wrong labels over what was believed, of bins as `measure_reliability` has them."""
    title = "How often a label is wrong, by how probable that was said to be"
    figure, (axes,) = make_panels(1, title, "probability", "share of wrong labels")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":", label="what it should be")
    for label, (colour, dashes) in assign_strokes(list(measured)).items():
        believed, true, count = measured[label][measured[label][:, 2] > 0].T
        axes.plot(believed, true, color=colour, linestyle=dashes, linewidth=1.2, label=label)
        areas = LARGEST * np.sqrt(count / count.max())
        axes.scatter(believed, true, areas, color=colour, alpha=0.45, linewidths=0)
    axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))
    add_legend(figure)
    return Picture(name, title, figure)


def draw_found(name: str, found: Mapping[str, Floats]) -> Picture:
    """How many wrong labels were found after each decision, by order or person."""
    title = "Wrong labels found, by decisions made"
    figure, (axes,) = make_panels(1, title, "decisions", "wrong labels found")
    most = max((len(count) for count in found.values()), default=0)
    axes.plot([0, most], [0, most], color=INK, linewidth=0.8, linestyle=":", label="every one")
    for label, (colour, dashes) in assign_strokes(list(found)).items():
        count = np.concatenate([[0.0], found[label]])
        axes.plot(count, color=colour, linestyle=dashes, linewidth=1.4, label=label)
    add_legend(figure)
    return Picture(name, title, figure)
