"""The report on cleaned data: first what their owner wants to know, then what a researcher may."""

import base64
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from numpy.typing import NDArray

from drpl.analysis.findings import Findings
from drpl.cleaning.findings import FINDINGS, build_finding_sections
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.reliability import build_trust
from drpl.cleaning.review.thumbnails import encode_file
from drpl.cleaning.summary import (
    MEANING,
    OFTEN,
    UNKNOWN,
    WITHHELD,
    agree,
    describe_planted,
    find_distrusted,
    is_unsure,
)
from drpl.files import read_arrays
from drpl.report.matrices import draw_matrix
from drpl.report.numbers import Number, look_up, tag_name
from drpl.report.page import About, Section, report
from drpl.report.style import Picture, make_panels
from drpl.runs.folder import Result

WORST = 24  # images that are shown
SIDE = 160  # pixels of these
PAIRS = 10
UNSAID = "<p>Nothing can be said of this; the reason is given above.</p>"
WRONG = ("wrong, at least (%)", "at most (%)")


def write_report(
    cleaned: CleanedFolder,
    run: Result,
    figures: dict[str, Any],
    matrix: NDArray[Any],
    findings: Findings | None = None,
) -> Path:
    """Write `report.html`; `figures` is what clean.json will hold, `findings` are by features."""
    sections = [
        Section("The most suspicious labels", _show_worst(cleaned, figures), first=True),
        Section("Classes and pairs to distrust", _list_distrusted(figures), first=True),
        *(build_finding_sections(findings, figures, FINDINGS) if findings else ()),
        Section("What to do next", _list_next_steps(cleaned), first=True),
        Section("How labels were found", _describe_search(cleaned, figures, matrix)),
        build_trust(cleaned, {}),
    ]
    path, about = cleaned.folder / "report.html", build_about(cleaned, figures)
    return report([run], path, sections=sections, images=cleaned.root, about=about)


def build_about(cleaned: CleanedFolder, figures: dict[str, Any]) -> About:
    """The name of the data, what is doubtful, and in a sentence how much is wrong."""
    doubts = [
        Markup('<p class="note">Doubtful: {}.</p>').format(tag_name(doubt))
        for doubt in figures["doubts"]
    ]
    return About(Path(cleaned.source).name, str(Markup().join([*doubts, _describe_rate(figures)])))


def _describe_rate(figures: dict[str, Any]) -> Markup:
    """How much is wrong, how sure that is, and how much is listed."""
    rate = [_read(figures, f"noise rate.{end}", percent=True) for end in ("value", "low", "high")]
    if figures["noise rate"]["high"] == 1:
        return Markup("<p>How many of the {} labels are wrong cannot be said: {}.</p>").format(
            _read(figures, "samples"), UNKNOWN
        )
    if figures.get("withheld"):
        return Markup("<p>At most <b>{}&nbsp;%</b> of the {} labels are wrong. {}</p>").format(
            rate[2], _read(figures, "samples"), WITHHELD
        )
    return Markup(
        "<p>Between <b>{}</b> and <b>{}&nbsp;%</b> of the {} labels are wrong, most likely about "
        "<b>{}&nbsp;%</b>. This interval should contain the truth in nineteen of twenty cases; "
        "forty decisions in a review make it narrower.</p>"
    ).format(*rate[1:], _read(figures, "samples"), rate[0])


def _show_worst(cleaned: CleanedFolder, figures: dict[str, Any]) -> str:
    """How many labels are listed, of which kinds, and the worst of them as pictures."""
    if is_unsure(figures):
        return UNSAID
    if not figures["issues"]:
        return "<p>No label is more probably wrong than right, so none is listed.</p>"
    kinds = [
        Markup("{} {}").format(_read(figures, f"verdicts.{kind}"), agree(count, MEANING[kind]))
        for kind, count in figures["verdicts"].items()
        if count
    ]
    text = Markup(
        "<p>{} labels are more probably wrong than right; of these images {}. The worst are shown, "
        "given label → what it should be, with the probability that it is wrong. The whole list is "
        "<code>issues.csv</code>.</p>"
    ).format(_read(figures, "issues"), Markup(", ").join(kinds))
    return str(text + Markup('<ul class="tiles large">{}</ul>').format(_make_tiles(cleaned)))


def _make_tiles(cleaned: CleanedFolder) -> Markup:
    """The worst issues; without a picture where the samples are no images."""
    pictured = cleaned.root is not None or (cleaned.folder / "images").is_dir()
    p_noisy = read_arrays(cleaned.folder / "samples.npz")["p_noisy"]
    tiles = []
    for issue in cleaned.issues[:WORST].itertuples():
        number = int(issue.Index)
        seen = "not any class" if issue.verdict == "outside" else issue.suggested_label
        risk = Number(
            float(p_noisy[number]), (0,), "samples.npz", f"p_noisy[{number}]", 1, "", True
        )
        picture = _embed(cleaned.image(number), issue.given_label) if pictured else Markup()
        tiles.append(
            Markup('<li title="{}">{}{} → {}, {}&nbsp;%</li>').format(
                issue.path or f"image {number}",
                picture,
                tag_name(issue.given_label),
                tag_name(seen),
                risk,
            )
        )
    return Markup().join(tiles)


def _embed(path: Path | None, label: str) -> Markup:
    content, kind = encode_file(path, SIDE)
    source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    return Markup('<img src="{}" alt="given label: {}">').format(source, label)


def _list_distrusted(figures: dict[str, Any]) -> str:
    """The classes with more doubted labels than others, and what is mistaken for what."""
    if is_unsure(figures):
        return UNSAID
    classes = [
        (
            tag_name(figures["classes"][k]["name"]),
            _read(figures, f"classes.{k}.samples"),
            _read(figures, f"classes.{k}.issues"),
            _read(figures, f"classes.{k}.share", percent=True),
            *(_read_class_rate(figures, k, end) for end in ("low", "high")),
        )
        for k in find_distrusted(figures)
    ]
    pairs = [
        (
            tag_name(pair["true"]),
            tag_name(pair["given"]),
            _read(figures, f"pairs.{k}.share", percent=True),
        )
        for k, pair in enumerate(figures["pairs"][:PAIRS])
        if pair["share"] >= OFTEN
    ]
    return str(
        (
            _tabulate(("class", "labels", "doubted", "doubted (%)", *WRONG), classes)
            if classes
            else Markup("<p>No class is much worse than the others.</p>")
        )
        + (
            Markup("<h3>What is called by another name</h3>")
            + _tabulate(("really", "labelled as", "of the class (%)"), pairs)
            if pairs
            else Markup("<p>No class is often called by another's name.</p>")
        )
    )


def _read_class_rate(figures: dict[str, Any], number: int, end: str) -> Number | str:
    """An end of the share of wrong labels in a class, where it is known."""
    rate = figures["classes"][number].get("noise rate")
    if not rate or rate["high"] == 1:
        return "unknown"
    return _read(figures, f"classes.{number}.noise rate.{end}", percent=True)


def _list_next_steps(cleaned: CleanedFolder) -> str:
    """What to do now, as commands."""
    name = shlex.quote(cleaned.folder.name)
    steps = (
        ("Look at forty images, then at the suspicious ones, and decide", f"drpl review {name}"),
        ("Let a colleague decide on a page without server", f"drpl review {name} --page page.html"),
        ("Write the corrected data set; the originals stay", f"drpl apply {name} -o corrected"),
        ("Name other images by the model that was trained", f"drpl predict {name} IMAGES"),
    )
    lines = [Markup("<li>{}: <code>{}</code></li>").format(*step) for step in steps]
    return str(Markup("<ol>{}</ol>").format(Markup().join(lines)))


def _describe_search(cleaned: CleanedFolder, figures: dict[str, Any], matrix: NDArray[Any]) -> str:
    """For researchers: notes, planted errors and the noise matrix."""
    notes = [Markup("<li>{}</li>").format(tag_name(note)) for note in figures["notes"]]
    text = Markup("<ul>{}</ul>").format(Markup().join(notes)) if notes else Markup()
    if "planted" in figures:
        text += Markup("<p>{}</p>").format(tag_name(describe_planted(figures["planted"])))
    return str(text) + _draw_matrix(matrix, cleaned.classes)


def _draw_matrix(matrix: NDArray[Any], classes: tuple[str, ...]) -> str:
    """The noise matrix."""
    side = min(5.2, max(3.2, 0.38 * len(classes)))
    title = "Estimated: which label each true class was given"
    size = (side + 0.4, side - 0.2)
    figure, (axes,) = make_panels(1, title, "given label", "true class", size=size)
    draw_matrix(axes, matrix, classes, classes)
    svg = Picture("noise-matrix", title, figure).render_svg()
    return f'<figure style="--wide:{round(96 * side)}px"><div class="drawing">{svg}</div></figure>'


def _tabulate(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table as the page's own are."""
    head = Markup().join(Markup('<th scope="col">{}</th>').format(one) for one in heads)
    body = (Markup().join(Markup("<td>{}</td>").format(cell) for cell in row) for row in rows)
    return Markup(
        '<div class="wide"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(head, Markup().join(Markup("<tr>{}</tr>").format(row) for row in body))


def _read(figures: dict[str, Any], key: str, *, percent: bool = False) -> Number:
    """A figure with its source."""
    return Number(look_up(figures, key), (0,), "clean.json", key, int(percent), "", percent)
