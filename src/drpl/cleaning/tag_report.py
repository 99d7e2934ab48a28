"""The page on images with several labels: a table, and for each label what is doubted."""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from markupsafe import Markup
from PIL import Image

from drpl.data.dataset import Dataset
from drpl.data.decoding import to_picture
from drpl.errors import DrplError
from drpl.files import make_printable, write_atomic
from drpl.report.gallery import embed

MOST = 8  # images of each label and kind that are shown
SIDE = 128  # pixels a side of a picture
TITLES = {"wrong": "should not be there", "missing": "is missing"}
STYLE = Markup(
    """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#222;background:#fff}table{border-collapse:collapse}td,th{padding:.2rem .8rem;
text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
figure{display:inline-block;margin:.4rem;width:9rem;vertical-align:top;font-size:.8rem;
overflow-wrap:anywhere}img{max-width:8rem;max-height:8rem;display:block}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}}
"""
)
PAGE = Markup(
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
    'content="width=device-width"><title>{title}</title><style>{style}</style><h1>{title}</h1>'
    "<p>{count} images; {issues} entries are probably wrong: {wrong} labels should not be there, "
    "{missing} are missing.</p>{notes}<table><tr><th>label<th>images<th>should not be there"
    "<th>missing</tr>{rows}</table>{sections}</html>"
)
ROW = Markup('<tr><td><a href="#l{}">{}</a><td>{}<td>{}<td>{}</tr>')


def write_report(
    path: Path, source: str, figures: dict[str, Any], issues: pd.DataFrame, train: Dataset
) -> None:
    """One page that needs nothing else."""
    rows = Markup().join(
        ROW.format(k, _show(row["label"]), *(row[name] for name in _COUNTS))
        for k, row in enumerate(figures["labels"])
    )
    sections = Markup().join(
        _describe_label(k, row["label"], issues[issues["label"] == row["label"]], train)
        for k, row in enumerate(figures["labels"])
    )
    notes = Markup().join(Markup("<p>Note: {}.</p>").format(note) for note in figures["notes"][:5])
    page = PAGE.format(
        title=f"Labels of {make_printable(Path(source).name)}",
        style=STYLE,
        count=f"{figures['samples']:,}",
        issues=f"{figures['issues']:,}",
        notes=notes,
        rows=rows,
        sections=sections,
        **figures["kinds"],
    )
    write_atomic(path, str(page))


_COUNTS = ("images", "listed_wrong", "listed_missing")


def _show(label: str) -> str:
    return make_printable(label)


def _describe_label(number: int, label: str, issues: pd.DataFrame, train: Dataset) -> Markup:
    """The worst entries of a label, of each kind."""
    text = Markup('<h2 id="l{}">{}</h2>').format(number, _show(label))
    for kind, title in TITLES.items():
        mine = issues[issues["kind"] == kind]
        text += Markup("<h3>{} {}: {} images</h3>").format(_show(label), title, len(mine))
        text += Markup().join(_draw(row, train) for row in mine[:MOST].to_dict("records"))
    return text


def _draw(row: dict[Any, Any], train: Dataset) -> Markup:
    name = make_printable(row["path"]) or f"image {row['id']}"
    return Markup("<figure>{}<figcaption>{}<br>{}<br>p {:.2f}</figcaption></figure>").format(
        _picture(int(row["id"]), train), name, row["labels"] or "no label", row["p_wrong"]
    )


def _picture(number: int, train: Dataset) -> Markup:
    """An image as part of the page; nothing where there is none."""
    images = train.pictures or train.images
    if len(images.shape) != 3:
        return Markup()
    try:
        pixels = images.load(torch.tensor([number]))[0]
    except DrplError:  # its file is gone since
        return Markup()
    picture = Image.fromarray(to_picture(pixels))
    picture.thumbnail((SIDE, SIDE))
    return Markup('<img alt="" src="{}">').format(embed(picture))
