"""How losses and probabilities of noise are distributed when a split is decided."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import beta

from drpl.report.load import Arrays, group_samples, read_split, read_wrong
from drpl.report.style import CLEAN, INK, NOISY, ROLES, add_legend, make_panels
from drpl.runs.folder import Result

BINS = 48
THRESHOLD = "threshold: beyond it labels are lost"

Stage = dict[str, Any]  # what result.json says of a split


def draw_loss_histograms(run: Result, title: str) -> Figure | None:
    """Losses that each split was decided by, both fitted components, and where it was cut."""
    stages = run.summary["stages"]
    if not stages:
        return None
    nats = all(stage["mixture"] for stage in stages)  # other methods split by scores of their own
    across = "loss against the given label (nats)" if nats else "loss as the method scales it"
    up = "density (1 / nat)" if nats else "density (1 / unit of loss)"
    figure, panels = make_panels(len(stages), title, across, up)
    wrong = read_wrong(run)
    for axes, stage in zip(panels, stages, strict=True):
        axes.set_title(f"after {stage['stage']}", fontsize=9)
        _draw_losses(axes, stage, read_split(run, stage["stage"]), wrong)
    add_legend(figure)
    return figure


def _draw_losses(axes: Axes, stage: Stage, split: Arrays, wrong: NDArray[np.bool_] | None) -> None:
    """One panel."""
    values, mixture = split["losses"].astype(float), stage["mixture"]
    low, high = map(float, mixture["scale"] if mixture else np.percentile(values, [5, 95]))
    top = min(float(values.max()), high + 0.1 * (high - low)) or 1.0
    bins: NDArray[Any] = np.linspace(min(0.0, float(values.min())), top, BINS + 1)
    bottom: NDArray[Any] = np.zeros(BINS)
    for name, role, mask in group_samples(wrong, len(values)):
        counts, _ = np.histogram(np.minimum(values[mask], top), bins)
        edge = bottom + counts / (len(values) * (bins[1] - bins[0]))
        look: dict[str, Any] = {"color": ROLES[role], "alpha": 0.5, "label": name}
        axes.stairs(edge, bins, baseline=bottom, fill=True, **look)
        bottom = edge
    # The first bar towers over all others: cut it so that these can be seen.
    ceiling = float(bottom.max())
    seen = float(np.sort(bottom)[-4:].mean()) * 1.6
    axes.set_ylim(0, 1.08 * min(ceiling, seen) or 1)
    if ceiling > seen:
        place = bins[int(bottom.argmax())], 1.08 * seen
        axes.text(*place, f"↑ {ceiling:.1f}", color=INK, fontsize=7, va="bottom", ha="left")
    if mixture and high - low >= 1e-4:
        _draw_mixture(axes, mixture, low, high)
    border = find_border(stage, split)
    if border is not None and border <= top:
        axes.axvline(border, color=INK, ls="--", lw=1.1, label=THRESHOLD)


def _draw_mixture(axes: Axes, mixture: dict[str, Any], low: float, high: float) -> None:
    """Both fitted components on the scale of the losses."""
    x: NDArray[Any] = np.linspace(0.004, 0.996, 160)
    parts = zip(mixture["alpha"], mixture["beta"], mixture["weight"], strict=True)
    looks = ((CLEAN, "low"), (NOISY, "high"))
    for (a, b, weight), (colour, name) in zip(parts, looks, strict=True):
        # 90 % of the samples lie between the ends of the scale, and were fitted.
        density = 0.9 * weight * beta.pdf(x, a, b) / (high - low)
        label = f"fitted, {name} losses"
        axes.plot(low + x * (high - low), density, color=colour, lw=1.8, label=label)


def find_border(stage: Stage, split: Arrays) -> float | None:
    """The lowest loss that is called noisy, if all above it are as well."""
    noisy = split["noisy"] > stage["threshold"]
    if not noisy.any():
        return None
    border = float(split["losses"][noisy].min())
    kept = split["losses"][~noisy]
    return None if kept.size and float(kept.max()) > border else border


def draw_posteriors(run: Result, title: str) -> Figure | None:
    """How many samples have which probability of noise at each split, and where it was cut."""
    stages = run.summary["stages"]
    if not stages:
        return None
    across, up = "probability of noise (0 to 1)", "samples (logarithmic)"
    figure, panels = make_panels(len(stages), title, across, up)
    bins: NDArray[Any] = np.linspace(0, 1, 41)
    wrong = read_wrong(run)
    for axes, stage in zip(panels, stages, strict=True):
        values = read_split(run, stage["stage"])["noisy"].astype(float)
        for name, role, mask in group_samples(wrong, len(values)):
            counts, _ = np.histogram(values[mask].clip(0, 1), bins)
            dashes = "--" if role == "noisy" else "-"
            axes.stairs(counts, bins, fill=True, color=ROLES[role], alpha=0.28)
            axes.stairs(counts, bins, color=ROLES[role], lw=1.4, label=name, ls=dashes)
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.axvline(stage["threshold"], color=INK, ls=":", lw=1.2, label=THRESHOLD)
        axes.set_title(f"after {stage['stage']}", fontsize=9)
    add_legend(figure)
    return figure
