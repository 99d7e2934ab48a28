"""The report in a real browser: narrow and wide, light and dark, alone in the world."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from drpl.report.page import Section, report
from tests.support.browser import Tab

WIDTHS = (390, 1280, 1920)
TALLEST = 12_000  # pixels of a screenshot
OPENS = 3.0  # seconds


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are kept: $DRPL_ARTEFACTS, or pytest's own folder."""
    wanted = os.environ.get("DRPL_ARTEFACTS")
    return Path(wanted) if wanted else tmp_path_factory.mktemp("artefacts")


@pytest.fixture(scope="module")
def single(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>"
    tables += "<table><tr><td>no head</td></tr></table>"
    more = [Section("Review", f"<p>A part from elsewhere.</p>{tables}")]
    return report([run], tmp_path_factory.mktemp("page") / "run.html", sections=more)


@pytest.fixture(scope="module")
def large(comparison_page: Path) -> Path:
    return comparison_page


def load_seconds(tab: Tab, file: Path) -> float:
    """Open a page; how many seconds until all of it was there."""
    tab.open(file.as_uri())
    tab.wait("performance.timing.loadEventEnd > 0")
    taken = "performance.timing.loadEventEnd - performance.timing.navigationStart"
    return float(tab.run(taken)) / 1000


def check_alone(tab: Tab, file: Path) -> None:
    """Nothing was complained about, and nothing but the page was asked for."""
    tab.check()
    assert {one for one in tab.requests if not one.startswith("data:")} == {file.as_uri()}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["single", pytest.param("large", marks=pytest.mark.slow)])
def test_every_width_in_light_and_dark(
    tab: Tab, kind: str, width: int, dark: bool, artefacts: Path, request: pytest.FixtureRequest
) -> None:
    file = request.getfixturevalue(kind)
    tab.resize(width, 900, dark=dark)
    tab.open(file.as_uri())
    assert tab.run("document.documentElement.scrollWidth") <= width  # no sideways scrolling
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
    ink = tab.run("getComputedStyle(document.querySelector('.drawing svg')).color")
    assert ink == ("rgb(232, 232, 232)" if dark else "rgb(26, 27, 28)")
    # Figures out of sight are not drawn; a screenshot of the whole page wants them.
    tab.page.add_style_tag(content="figure { content-visibility: visible !important }")
    height = min(TALLEST, tab.run("document.documentElement.scrollHeight"))
    tab.resize(width, height, dark=dark)
    kept = artefacts / f"{file.stem}-{width}-{'dark' if dark else 'light'}.png"
    tab.shoot(kept)
    assert kept.stat().st_size > 50_000
    check_alone(tab, file)


def test_a_comparison_opens_at_once_and_is_small(tab: Tab, large: Path) -> None:
    """Ten methods under four noises."""
    assert large.stat().st_size <= 5e6
    # Others may use the machine: one load of ten that is quick shows that the page can be.
    assert any(load_seconds(tab, large) <= OPENS for _ in range(10))
    assert tab.page.locator("table").first.locator("tbody tr").count() == 40


def test_tables_sort_and_parts_fold(tab: Tab, large: Path) -> None:
    tab.open(large.as_uri())
    column = (
        "[...document.querySelectorAll('#results tbody tr')]"
        ".map(row => Number(row.cells[3].querySelector('data').value))"
    )
    as_written = tab.run(column)
    assert len(set(as_written)) > 1
    tab.page.click("#results th:nth-child(4) button")
    assert tab.run(column) == sorted(as_written)
    tab.page.click("#results th:nth-child(4) button")
    assert tab.run(column) == sorted(as_written, reverse=True)
    names = tab.page.locator("#results tbody tr td:nth-child(2)")
    before = names.all_inner_texts()
    tab.page.click("#results th:nth-child(2) button")
    assert names.all_inner_texts() == sorted(before) != before
    results = tab.page.locator("#results")
    assert results.get_attribute("open") is not None
    tab.page.click("#results > summary")
    assert results.get_attribute("open") is None
    assert tab.page.locator("nav a").count() >= 10
    check_alone(tab, large)


def test_it_can_be_printed(tab: Tab, single: Path, artefacts: Path) -> None:
    tab.resize(1280, 900, dark=True)
    tab.open(single.as_uri())
    printed = tab.page.pdf(path=artefacts / "run.pdf", print_background=True)
    assert printed.startswith(b"%PDF")
    assert len(printed) > 100_000
    check_alone(tab, single)


def test_a_live_page_loads_itself_again(tab: Tab, run: Path, tmp_path: Path) -> None:
    live = report([run], tmp_path / "live.html", reload=0.5)
    tab.open(live.as_uri())
    tab.run("document.querySelector('#results').open = false; window.old = true; 0")
    text = live.read_text()
    live.write_text(text.replace("</h1>", " (new)</h1>", 1).replace('data-reload="0.5"', ""))
    expect(tab.page.locator("h1")).to_contain_text("(new)")
    assert tab.run("window.old") is None
