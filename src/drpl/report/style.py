"""One look for every figure: colours that all can tell apart, light or dark, screen or paper."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import product
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drpl.files import write_if_changed

# In SVG these two become the page's text and background colour; in PNG they are what they are.
INK, PAPER = "#1a1b1c", "#fdfefe"
# Okabe and Ito's colours, which colour-blind readers can tell apart (yellow is too pale for lines).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
CLEAN, NOISY, EITHER = COLOURS[0], COLOURS[1], "#8a8a8a"  # either: nobody knows
ROLES = {"clean": CLEAN, "noisy": NOISY, "either": EITHER}  # of samples, see `load.group_samples`
BRIGHT = ("#3d9be9", "#ff8433", "#1fc796", "#e39ac6", "#ffc04d", "#a5dcff")  # the same on dark
DASHES = ("-", "--", "-.", ":")
BESIDE: dict[str, Any] = {"loc": "outside right upper", "ncols": 1}  # legend of one large panel
STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "figure.labelsize": 9,
    "figure.titlesize": 11,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "drpl",
    "path.simplify_threshold": 0.3,
}
# A file of its own follows the reader's taste in ink only: few programs know CSS variables.
ALONE = (
    f"<style>svg{{color:{INK}}}@media(prefers-color-scheme:dark){{svg{{color:#e8e8e8}}}}</style>"
)
DARK = ";".join(f"--colour-{k}:{colour}" for k, colour in enumerate(BRIGHT))

Strokes = Mapping[str, tuple[str, str]]  # a colour and a kind of line for each name


@dataclass(frozen=True)
class Picture:
    """A figure with a title, and the name of its files."""

    name: str
    title: str
    figure: Figure
    kind: str = ""  # by which a page finds its caption

    @property
    def wide(self) -> int:
        """How many pixels wide it would like to be."""
        return round(96 * float(self.figure.get_figwidth()))

    def render_png(self, dpi: int = 150) -> bytes:
        """For print and for where SVG cannot go: on white."""
        buffer = io.BytesIO()
        with use_style():
            self.figure.savefig(
                buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None}
            )
        return buffer.getvalue()

    def render_svg(self, *, alone: bool = False) -> str:
        """One <svg> element, for a page or `alone` in a file; equal figures give equal text."""
        buffer = io.StringIO()
        with use_style():
            self.figure.savefig(buffer, format="svg", metadata={"Date": None})
        text = _tidy_svg(buffer.getvalue(), self.name, self.title)
        if alone:
            return text.replace(">", f">{ALONE}", 1)
        for k, colour in enumerate(COLOURS[: len(BRIGHT)]):
            text = text.replace(colour, f"var(--colour-{k},{colour})")
        return text.replace(PAPER, "var(--paper)")

    def write(self, folder: Path) -> list[Path]:
        """Write it to the folder as SVG and as PNG; the files."""
        svg, png = (folder / f"{self.name}.{ending}" for ending in ("svg", "png"))
        write_if_changed(svg, self.render_svg(alone=True))
        write_if_changed(png, self.render_png())
        return [svg, png]


@contextmanager
def use_style() -> Iterator[None]:
    """Our look; characters that the font lacks become boxes, without a warning."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _tidy_svg(text: str, name: str, title: str) -> str:
    """The element with nothing in it that is not seen, and ids that no other figure has."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|\s*<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(|href=")#([^")]+)', rf"\1#{name}-\2", text)
    text = re.sub(r'( (?:d|x|y|transform)=")([^"]+)', lambda m: m[1] + _round_numbers(m[2]), text)
    text = text.replace(INK, "currentColor")
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = re.sub(r">\s+<", "><", text).strip()
    about = f'role="img" aria-label="{escape(title)}" stroke-linejoin="round"'
    return text.replace("<svg ", f"<svg {about} ", 1)


def _round_numbers(text: str) -> str:
    """Coordinates to a tenth of a point: nobody sees more."""
    short = re.sub(r"-?\d+\.\d{2,}(e-?\d+)?", lambda m: f"{float(m[0]):.1f}", text)
    return " ".join(short.split())


def make_panels(
    count: int,
    title: str,
    across: str,
    up: str,
    *,
    columns: int = 3,
    size: tuple[float, float] = (3.1, 2.35),
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` axes, labelled at its left and lower edges."""
    columns = min(columns, count)
    rows = ceil(count / columns)
    with matplotlib.rc_context(STYLE):
        wide = max(4.8, columns * size[0] + 0.4)
        figure = Figure(figsize=(wide, rows * size[1] + 1.1), layout="constrained")
        text = fill(title, round(12 * wide), break_on_hyphens=False)
        figure.suptitle(text, x=0.01, ha="left", fontsize=10.5)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for empty in axes[count:]:
        empty.remove()
    for lowest in axes[max(0, count - columns) : count]:  # of each column
        lowest.set_xlabel(across, fontsize=9)
    for first in axes[:count:columns]:  # of each row
        first.set_ylabel(up, fontsize=9)
    return figure, axes[:count]


def add_legend(where: Figure | Axes, handles: Sequence[Any] | None = None, **place: Any) -> None:
    """A legend, each name once; that of a figure lies below its panels unless `place` says else."""
    if isinstance(where, Figure):
        place = {"loc": "outside lower left", "ncols": round(where.get_figwidth() / 2.45)} | place
    if handles is None:
        every = where.axes if isinstance(where, Figure) else [where]
        found = [axes.get_legend_handles_labels() for axes in every]
        named = {text: handle for pair in found for handle, text in zip(*pair, strict=True)}
    else:
        named = {handle.get_label(): handle for handle in handles}
    if named:
        look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False, **place}
        with matplotlib.rc_context(STYLE):
            where.legend(list(named.values()), list(named), **look)


def assign_strokes(names: Sequence[str]) -> Strokes:
    """A colour and a kind of line for each name, the same in every figure of a page."""
    pairs = [(colour, dashes) for dashes, colour in product(DASHES, COLOURS)]
    return {name: pairs[k % len(pairs)] for k, name in enumerate(dict.fromkeys(names))}
