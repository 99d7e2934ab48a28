"""How losses and probabilities of noise are distributed when a split is decided."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import beta

from drpl.report.runs import parts, split, wrong
from drpl.report.style import CLEAN, EITHER, INK, NOISY, head, legend, panels
from drpl.runs.folder import Result

FILL = {"clean": CLEAN, "noisy": NOISY, "either": EITHER}
BINS = 48


def losses(run: Result, title: str) -> Figure | None:
    """Losses that each split was decided by, both fitted components, and where it was cut."""
    stages = run.summary["stages"]
    if not stages:
        return None
    nats = all(stage["mixture"] for stage in stages)  # others judge by scores of their own
    across = "loss against the given label (nats)" if nats else "loss as the method scales it"
    up = "density (1 / nat)" if nats else "density (1 / unit of loss)"
    figure, every = panels(len(stages), title, across, up)
    for axes, stage in zip(every, stages, strict=True):
        table = split(run, stage["stage"])
        head(axes, f"after {stage['stage']}")
        draw_losses(axes, stage, table, wrong(run))
    legend(figure)
    return figure


def draw_losses(
    axes: Axes, stage: dict[str, Any], table: dict[str, NDArray[Any]], known: Any
) -> None:
    """One panel."""
    values = table["losses"].astype(float)
    low, high = scale_of(stage, values)
    top = min(float(values.max()), high + 0.1 * (high - low)) or 1.0
    bins: NDArray[Any] = np.linspace(min(0.0, float(values.min())), top, BINS + 1)
    bottom: NDArray[Any] = np.zeros(BINS)
    for name, role, mask in parts(known, len(values)):
        heights, _ = np.histogram(np.minimum(values[mask], top), bins)
        heights = heights / (len(values) * (bins[1] - bins[0]))
        axes.stairs(
            bottom + heights,
            bins,
            baseline=bottom,
            fill=True,
            color=FILL[role],
            alpha=0.5,
            label=name,
        )
        bottom = bottom + heights
    # The first bar towers over all others: cut it so that these can be seen.
    ceiling = float(bottom.max())
    seen = float(np.sort(bottom)[-4:].mean()) * 1.6
    axes.set_ylim(0, 1.08 * min(ceiling, seen) or 1)
    if ceiling > seen:
        place = bins[int(bottom.argmax())], 1.08 * seen
        axes.text(*place, f"↑ {ceiling:.1f}", color=INK, fontsize=7, va="bottom", ha="left")
    if stage["mixture"]:
        draw_mixture(axes, stage, low, high)
    border = cut(stage, table)
    if border is not None and border <= top:
        draw_cut(axes, border)


def draw_cut(axes: Axes, border: float) -> None:
    """Where labels stop being kept."""
    axes.axvline(border, color=INK, ls="--", lw=1.1, label="threshold: beyond it labels are lost")


def scale_of(stage: dict[str, Any], values: NDArray[Any]) -> tuple[float, float]:
    """Between which losses a stage's histogram is drawn."""
    mixture = stage["mixture"]
    low, high = mixture["scale"] if mixture else np.percentile(values, [5, 95])
    return float(low), float(high)


def draw_mixture(axes: Axes, stage: dict[str, Any], low: float, high: float) -> None:
    """Both fitted components on the scale of the losses."""
    mixture = stage["mixture"]
    if high - low < 1e-4:
        return
    x: NDArray[Any] = np.linspace(0.004, 0.996, 160)
    shapes = zip(mixture["alpha"], mixture["beta"], mixture["weight"], strict=True)
    # 90 % of the samples lie between the ends of the scale, and were fitted.
    fitted = [0.9 * w * beta.pdf(x, a, b) / (high - low) for a, b, w in shapes]
    for part, colour, name in zip(fitted, (CLEAN, NOISY), ("low", "high"), strict=True):
        axes.plot(
            low + x * (high - low), part, color=colour, lw=1.8, label=f"fitted, {name} losses"
        )


def cut(stage: dict[str, Any], table: dict[str, NDArray[Any]]) -> float | None:
    """The lowest loss that is called noisy, if all above it are as well."""
    noisy = table["noisy"] > stage["threshold"]
    if not noisy.any():
        return None
    border = float(table["losses"][noisy].min())
    kept = table["losses"][~noisy]
    return None if kept.size and float(kept.max()) > border else border


def posterior(run: Result, title: str) -> Figure | None:
    """How many samples have which probability of noise at each split, and where it was cut."""
    stages = run.summary["stages"]
    if not stages:
        return None
    figure, every = panels(
        len(stages), title, "probability of noise (0 to 1)", "samples (logarithmic)"
    )
    bins: NDArray[Any] = np.linspace(0, 1, 41)
    for axes, stage in zip(every, stages, strict=True):
        values = split(run, stage["stage"])["noisy"].astype(float)
        for name, role, mask in parts(wrong(run), len(values)):
            counts, _ = np.histogram(values[mask].clip(0, 1), bins)
            axes.stairs(counts, bins, fill=True, color=FILL[role], alpha=0.28)
            axes.stairs(
                counts,
                bins,
                color=FILL[role],
                lw=1.4,
                label=name,
                ls="--" if role == "noisy" else "-",
            )
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.axvline(
            stage["threshold"],
            color=INK,
            ls=":",
            lw=1.2,
            label="threshold: beyond it labels are lost",
        )
        head(axes, f"after {stage['stage']}")
    legend(figure)
    return figure
