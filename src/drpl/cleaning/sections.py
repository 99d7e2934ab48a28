"""What a report on cleaned data has more than that of a run: what was found, and a review."""

from html import escape
from typing import Any

from markupsafe import Markup
from numpy.typing import NDArray

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.page import MOST, build_standalone, read_part
from drpl.cleaning.summary import MEANING, UNKNOWN, WITHHELD, describe_planted
from drpl.report.matrices import draw_matrix
from drpl.report.numbers import Number, look_up, tag_name
from drpl.report.page import Section
from drpl.report.style import Picture, make_panels

FRAME = "width:100%;height:min(46rem,90vh);border:1px solid var(--line)"


def build_sections(
    cleaned: CleanedFolder, figures: dict[str, Any], matrix: NDArray[Any]
) -> list[Section]:
    """The parts of the page, the review only where there are issues with images."""
    found = _describe(figures) + _draw_matrix(matrix, cleaned.classes)
    sections = [Section("What was found", found, first=True)]
    if len(cleaned.issues) and (cleaned.root or (cleaned.folder / "images").is_dir()):
        sections.append(_embed_review(cleaned))
    return sections


def _describe(figures: dict[str, Any]) -> str:
    """How much is wrong and what kind of wrong it is, every figure with its source."""

    def number(key: str, *, percent: bool = False) -> Number:
        return Number(look_up(figures, key), (0,), "clean.json", key, int(percent), "", percent)

    rate = [number(f"noise rate.{end}", percent=True) for end in ("value", "low", "high")]
    text = Markup(
        "<p>Between <b>{}</b> and <b>{}&nbsp;%</b> of the {} labels are wrong, most likely about "
        "<b>{}&nbsp;%</b>. {} are listed: they are more probably wrong than right.</p>"
    ).format(*rate[1:], number("samples"), rate[0], number("issues"))
    if figures["noise rate"]["high"] == 1:
        text = Markup("<p>How many of the {} labels are wrong cannot be said: {}.</p>").format(
            number("samples"), UNKNOWN
        )
    elif figures.get("withheld"):
        text = Markup("<p>At most <b>{}&nbsp;%</b> of the {} labels are wrong. {}</p>").format(
            rate[2], number("samples"), WITHHELD
        )
    doubt = Markup('<p class="note">Doubtful: {}.</p>')
    text = Markup().join([*(doubt.format(tag_name(one)) for one in figures["doubts"]), text])
    text += Markup().join(Markup("<p>Note: {}.</p>").format(note) for note in figures["notes"][:3])
    if "planted" in figures:
        text += Markup("<p>{}</p>").format(describe_planted(figures["planted"]))
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
    lists = Markup(
        "<ul>{}</ul><p>Mistaken most often, as shares of the true class:</p><ul>{}</ul>"
    ).format(Markup().join(kinds), Markup().join(pairs))
    return str(text + lists)


def _draw_matrix(matrix: NDArray[Any], classes: tuple[str, ...]) -> str:
    """The noise matrix."""
    side = min(5.2, max(3.2, 0.38 * len(classes)))
    title = "Estimated: which label each true class was given"
    size = (side + 0.4, side - 0.2)
    figure, (axes,) = make_panels(1, title, "given label", "true class", size=size)
    draw_matrix(axes, matrix, classes, classes)
    svg = Picture("noise-matrix", title, figure).render_svg()
    return f'<figure style="--wide:{round(96 * side)}px"><div class="drawing">{svg}</div></figure>'


def _embed_review(cleaned: CleanedFolder) -> Section:
    """The review page inside the report: without a server, its decisions saved as a file."""
    worst = "" if len(cleaned.issues) <= MOST else " (the worst of them)"
    about = (
        f"<p>Look and decide{worst}: by keys, as in <code>drpl review</code>. The button saves "
        "your decisions as a file; take it in with <code>drpl review FOLDER --import "
        "decisions.csv</code>.</p>"
    )
    page = escape(build_standalone(cleaned, ""))
    frame = f'<iframe title="Review" style="{FRAME}" srcdoc="{page}"></iframe>'
    return Section("Review", about + frame, read_part("page.js"))
