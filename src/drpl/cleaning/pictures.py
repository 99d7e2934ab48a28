"""The worst labels as small pictures: of coloured half blocks in a terminal, or in a notebook."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup
from PIL import Image, ImageOps
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.thumbnails import open_thumbnail
from drpl.files import make_printable
from drpl.report.gallery import embed

WORST = 10
SIDE, GAP = 14, 2  # columns of a picture, two pixels to a line, and between pictures
LARGE = 64  # pixels in a notebook


@dataclass(frozen=True)
class Suspect:
    """A label that is probably wrong, and its image's file."""

    image: Path | None
    given: str
    suggested: str
    p_noisy: float


def list_worst(folder: Path, count: int = WORST) -> list[Suspect]:
    """The worst labels of a cleaned folder."""
    cleaned = CleanedFolder.load(folder)
    return [
        Suspect(cleaned.image(int(row.Index)), row.given_label, row.suggested_label, row.p_noisy)
        for row in cleaned.issues.head(count).itertuples()
    ]


@dataclass(frozen=True)
class Pictures:
    """Suspects side by side, as many in a row as the terminal is wide."""

    suspects: list[Suspect]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        across = max(1, (options.max_width + GAP) // (SIDE + GAP))
        for start in range(0, len(self.suspects), across):
            row = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
            for _ in range(across):
                row.add_column(width=SIDE, overflow="fold")
            row.add_row(*map(_draw_tile, self.suspects[start : start + across]))
            yield row


def can_draw(console: Console) -> bool:
    """Whether a terminal has colours enough and the sign for half a block."""
    colours = console.color_system in ("256", "truecolor")
    return console.is_terminal and colours and console.encoding.startswith("utf")


def _draw_tile(suspect: Suspect) -> RenderableType:
    """A picture, and below it what its label is and should be."""
    image = open_thumbnail(suspect.image, SIDE)
    given, suggested = map(make_printable, (suspect.given, suspect.suggested))
    caption = Text.assemble((given, "red"), "\n-> ", (suggested, "green"), "\n")
    return Group(*_draw_lines(image), caption)


def _draw_lines(image: Image.Image) -> Iterator[Text]:
    """A picture as lines of half blocks, each with one colour above another."""
    square = ImageOps.pad(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.LANCZOS)
    pixels = np.asarray(square).reshape(SIDE // 2, 2, SIDE, 3).tolist()
    for above, below in pixels:
        line = Text(no_wrap=True)
        for top, bottom in zip(above, below, strict=True):
            line.append("▀", Style(color=Color.from_rgb(*top), bgcolor=Color.from_rgb(*bottom)))
        yield line


def format_tiles(suspects: list[Suspect]) -> Markup:
    """The suspects as HTML; whatever their labels contain is text."""
    cell = Markup(
        '<td style="text-align:center;vertical-align:top">'
        '<img src="{}" alt="" style="width:{}px"><br><del>{}</del><br>{}<br>{:.0%}</td>'
    )
    tiles = [
        cell.format(
            embed(open_thumbnail(one.image, LARGE).convert("RGB")),
            LARGE,
            one.given,
            one.suggested,
            one.p_noisy,
        )
        for one in suspects
    ]
    head = Markup("<p>The worst labels, what they should be, and how probably they are wrong:</p>")
    return head + Markup("<table><tr>{}</tr></table>").format(Markup().join(tiles))
