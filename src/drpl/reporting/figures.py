"""The report's pictures, as SVG text that can stand inside a page."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import beta

from drpl.result import Result

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
CLEAN, NOISY = COLOURS[0], COLOURS[1]


def svg(figure: Figure) -> str:
    """The figure as one <svg> element; the same figure gives the same text."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "drpl", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def png_and_svg(figure: Figure) -> tuple[bytes, str]:
    """The figure in both formats; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue(), svg(figure)


def canvas(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    """An empty figure with named axes."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def accuracy_curves(results: Sequence[Result], names: Sequence[str]) -> str | None:
    """Test accuracy over all epochs of each run, stages one after the other."""
    figure, axes = canvas("Test accuracy", "epoch, all stages", "accuracy (%)")
    for k, (result, name) in enumerate(zip(results, names, strict=True)):
        values = [row["accuracy"] for row in result.history]
        if any(value is None for value in values):
            continue
        epochs = np.arange(1, len(values) + 1)
        axes.plot(epochs, values, color=COLOURS[k % len(COLOURS)], lw=1.4, label=name)
    if not axes.lines:
        plt.close(figure)
        return None
    axes.legend(fontsize="small", loc="lower right")
    return svg(figure)


def loss_histogram(result: Result, stage: dict[str, Any]) -> str:
    """Losses after a stage, clean and noisy apart where the truth is known, with the mixture."""
    with np.load(result.folder / "splits" / f"{stage['stage']}.npz") as arrays:
        losses = arrays["losses"]
    with np.load(result.folder / "samples.npz") as arrays:
        wrong = arrays.get("wrong")
    figure, axes = canvas(
        f"Loss after stage {stage['stage']!r}", "loss against the given label", "density"
    )
    low, high = scale_of(stage, losses)
    top = min(float(losses.max()), high + 0.1 * (high - low)) or 1.0
    bins = np.linspace(0, top, 60)
    groups = [losses] if wrong is None else [losses[~wrong], losses[wrong]]
    axes.hist(
        [np.minimum(group, top) for group in groups],
        bins=bins,  # type: ignore[arg-type]
        weights=[np.full(len(group), 1 / (len(losses) * (bins[1] - bins[0]))) for group in groups],
        color=["#999999"] if wrong is None else [CLEAN, NOISY],
        alpha=0.45,
        stacked=True,
        label=["all samples"] if wrong is None else ["clean", "noisy"],
    )
    if stage["mixture"]:
        draw_mixture(axes, stage, low, high)
    axes.legend(fontsize="small")
    return svg(figure)


def scale_of(stage: dict[str, Any], losses: NDArray[Any]) -> tuple[float, float]:
    """Between which losses a stage's histogram is drawn."""
    mixture = stage["mixture"]
    low, high = mixture["scale"] if mixture else np.percentile(losses, [5, 95])
    return float(low), float(high)


def draw_mixture(axes: Axes, stage: dict[str, Any], low: float, high: float) -> None:
    """Both fitted components on the scale of the losses, and where the decision falls."""
    mixture = stage["mixture"]
    if high - low < 1e-4:
        return
    x: NDArray[Any] = np.linspace(0.004, 0.996, 400)
    shapes = zip(mixture["alpha"], mixture["beta"], mixture["weight"], strict=True)
    parts = [w * beta.pdf(x, a, b) / (high - low) for a, b, w in shapes]
    ceiling = axes.get_ylim()[1]
    losses = low + x * (high - low)
    for part, colour, name in zip(parts, (CLEAN, NOISY), ("low", "high"), strict=True):
        axes.plot(losses, part, color=colour, lw=1.8, label=f"fitted, {name} loss")
    noisy = parts[1] / (parts[0] + parts[1] + 1e-12) > stage["threshold"]
    if noisy.any():
        border = losses[int(noisy.argmax())]
        axes.axvline(
            border, color="black", ls="--", lw=1, label=f"p(noisy) = {stage['threshold']:g}"
        )
    axes.set_ylim(0, ceiling)
