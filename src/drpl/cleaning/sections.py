"""What a report on cleaned data has more than that of a run: what was found, and a review."""

from html import escape
from typing import Any

from markupsafe import Markup
from numpy.typing import NDArray

from drpl.cleaning.folder import Cleaned
from drpl.cleaning.review.page import MOST, script, standalone
from drpl.cleaning.summary import MEANING
from drpl.report.matrices import draw_matrix
from drpl.report.numbers import Number, tag_name
from drpl.report.page import Section
from drpl.report.style import Picture, make_panels

FRAME = "width:100%;height:min(46rem,90vh);border:1px solid var(--line)"


def sections(cleaned: Cleaned, figures: dict[str, Any], matrix: NDArray[Any]) -> list[Section]:
    """The parts of the page, the review only where there are issues with images."""
    parts = [Section("What was found", found(figures) + drawn(matrix, cleaned), first=True)]
    if len(cleaned.issues) and (cleaned.root or (cleaned.folder / "images").is_dir()):
        parts.append(reviewing(cleaned))
    return parts


def found(figures: dict[str, Any]) -> str:
    """How much is wrong and what kind of wrong it is, every figure with its source."""

    def number(key: str, *, percent: bool = False) -> Number:
        value: Any = figures
        for part in key.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return Number(value, (0,), "clean.json", key, int(percent), "", percent)

    rate = [number(f"noise rate.{end}", percent=True) for end in ("value", "low", "high")]
    text = Markup(
        "<p>About <b>{}&nbsp;%</b> of the {} labels are wrong (between {} and {}&nbsp;%). {} are "
        "suspicious enough to be listed: every network that was trained speaks against them.</p>"
    ).format(rate[0], number("samples"), *rate[1:], number("issues"))
    kinds = [
        Markup("<li>{} {}</li>").format(number(f"verdicts.{kind}"), meaning)
        for kind, meaning in MEANING.items()
    ]
    pairs = [
        Markup("<li>{} as {}: {}&nbsp;%</li>").format(
            tag_name(pair["true"]),
            tag_name(pair["given"]),
            number(f"pairs.{k}.share", percent=True),
        )
        for k, pair in enumerate(figures["pairs"][:5])
    ]
    often = Markup("<p>Mistaken most often, as shares of the true class:</p><ul>{}</ul>")
    return str(
        text
        + Markup("<ul>{}</ul>").format(Markup().join(kinds))
        + often.format(Markup().join(pairs))
    )


def drawn(matrix: NDArray[Any], cleaned: Cleaned) -> str:
    """The noise matrix."""
    side = min(5.2, max(3.2, 0.38 * len(cleaned.classes)))
    title = "Estimated: which label each true class was given"
    size = (side + 0.4, side - 0.2)
    figure, (axes,) = make_panels(1, title, "given label", "true class", size=size)
    draw_matrix(axes, matrix, cleaned.classes, cleaned.classes)
    svg = Picture("noise-matrix", title, figure).render_svg()
    return f'<figure style="--wide:{round(96 * side)}px"><div class="drawing">{svg}</div></figure>'


def reviewing(cleaned: Cleaned) -> Section:
    """The review page inside the report: without a server, its decisions saved as a file."""
    page = standalone(cleaned, "")
    worst = "" if len(cleaned.issues) <= MOST else " (the worst of them)"
    about = (
        f"<p>Look and decide{worst}: by keys, as in <code>drpl review</code>. The button saves "
        "your decisions as a file; take it in with <code>drpl review FOLDER --import "
        "decisions.csv</code>.</p>"
    )
    frame = f'<iframe title="Review" style="{FRAME}" srcdoc="{escape(page)}"></iframe>'
    return Section("Review", about + frame, script())
