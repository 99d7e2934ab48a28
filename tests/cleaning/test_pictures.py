"""The worst labels as pictures: in a terminal of half blocks, in a notebook as HTML."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from drpl.cleaning.pictures import SIDE, Pictures, Suspect, can_draw, format_tiles


@pytest.fixture
def suspects(tmp_path: Path) -> list[Suspect]:
    """A picture that is red above and blue below, again and again; the last cannot be read."""
    picture = Image.new("RGB", (40, 40), "red")
    picture.paste("blue", (0, 20, 40, 40))
    picture.save(tmp_path / "flag.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    whole = Suspect(tmp_path / "flag.png", "<b>cat</b>", "dog & wolf", 0.97)
    return [*[whole] * 9, Suspect(tmp_path / "broken.png", "cat", "dog", 0.9)]


def draw(suspects: list[Suspect], width: int) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor"
    )
    with console.capture() as shown:
        console.print(Pictures(suspects))
    return shown.get()


@pytest.mark.parametrize(("width", "rows"), [(80, 2), (160, 1), (14, 10)])
def test_as_many_side_by_side_as_fit(suspects: list[Suspect], width: int, rows: int) -> None:
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in draw(suspects, width).splitlines()]
    assert all(len(line.rstrip()) <= width for line in plain)
    blocks = [line for line in plain if "▀" in line]
    assert len(blocks) == rows * SIDE // 2
    assert sum(line.count("▀") for line in blocks) == 10 * SIDE * SIDE // 2
    assert sum(line.count("<b>cat</b>") for line in plain) == 9


def test_colours_are_those_of_the_picture(suspects: list[Suspect]) -> None:
    first, *_ = draw(suspects[:1], 80).splitlines()
    assert "38;2;254;0;0;48;2;254;0;0m" in first.replace("255;0;0", "254;0;0")
    last = draw(suspects[:1], 80).splitlines()[SIDE // 2 - 1]
    assert "0;0;25" in last


@pytest.mark.parametrize(
    ("colours", "encoding", "drawn"),
    [
        ("truecolor", "utf-8", True),
        ("256", "utf-8", True),
        ("standard", "utf-8", False),
        ("truecolor", "latin-1", False),
        (None, "utf-8", False),
    ],
)
def test_only_where_a_terminal_can(colours: str | None, encoding: str, drawn: bool) -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(file=file, force_terminal=True, color_system=colours)  # type: ignore[arg-type]
    assert can_draw(console) is drawn
    assert not can_draw(Console(file=file))  # no terminal


def test_labels_in_html_are_text(suspects: list[Suspect]) -> None:
    page = str(format_tiles(suspects))
    assert page.count('<img src="data:image/') == 10
    assert "<b>" not in page
    assert "&lt;b&gt;cat&lt;/b&gt;" in page
    assert "dog &amp; wolf" in page
