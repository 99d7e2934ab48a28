"""The report on cleaned data: for its owner, small, and true to its files."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import expect

from drpl.cleaning.folder import CleanedFolder, write_about, write_issues
from drpl.cleaning.sections import WORST, write_report
from drpl.cleaning.summary import describe_findings
from drpl.files import write_json
from drpl.runs.folder import Result
from tests.report.test_page import check_numbers
from tests.support.browser import Tab
from tests.support.run_folders import CLASSES, Recipe, write_run

LARGEST = 5e6  # bytes of a report on SAMPLES images
SAMPLES, PHOTOS = 3000, 60
SIDE = 256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `drpl clean` would leave of 3,000 photos, which are as large as files get: all noise."""
    top = tmp_path_factory.mktemp("report")
    photos, cleaned = top / "holiday photos", top / "cleaned"
    draws = np.random.default_rng(1)
    photos.mkdir()
    for k in range(PHOTOS):
        pixels = draws.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"{k}.jpg", quality=95)
    write_run(cleaned, Recipe(samples=SAMPLES, truth=False, test=False, noise=None))
    table = pd.read_csv(cleaned / "samples.csv", keep_default_na=False)
    table["path"] = [f"{k % PHOTOS}.jpg" for k in range(SAMPLES)]
    table.to_csv(cleaned / "samples.csv", index=False)
    issues = table[table["flagged"]].sort_values("p_noisy", ascending=False)
    more = {"verdict": "mislabelled", "outlier_score": 1.0, "near_given": "", "near_suggested": ""}
    write_issues(cleaned, issues.assign(**more))
    write_about(cleaned, str(photos), photos, CLASSES)
    write_json(cleaned / "clean.json", describe(issues))
    return cleaned


def describe(issues: pd.DataFrame) -> dict[str, object]:
    """The figures that go with them: one class is worse than the others."""
    classes: list[dict[str, object]] = [
        {"name": name, "samples": 333, "issues": 30 + 200 * (name == "Sandal"), "share": 0.09}
        for name in CLASSES
    ]
    rate = {"value": 0.71, "low": 0.643, "high": 0.787}
    classes[CLASSES.index("Sandal")] |= {"share": 0.7, "noise rate": rate}
    return {
        "samples": SAMPLES,
        "issues": len(issues),
        "noise rate": {"value": 0.31, "low": 0.24, "high": 0.37},
        "verdicts": {"mislabelled": len(issues), "outside": 0, "ambiguous": 0},
        "classes": classes,
        "pairs": [{"true": "Coat 2", "given": "Sandal", "share": 0.12}],
        "doubts": [],
        "notes": ["trained on <pixels>"],
    }


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    cleaned, figures = CleanedFolder.load(folder), describe(CleanedFolder.load(folder).issues)
    return write_report(cleaned, Result.load(folder), figures, np.eye(len(CLASSES)))


@pytest.mark.parametrize(
    "unsure", [{"noise rate": {"value": 0.3, "low": 0, "high": 1}}, {"withheld": True}]
)
def test_nothing_known_is_not_called_good(folder: Path, unsure: dict[str, object]) -> None:
    """Where nobody can say how many labels are wrong, no class is called as good as the others."""
    cleaned = CleanedFolder.load(folder)
    figures = describe(cleaned.issues) | {"issues": 0, "verdicts": {}, "pairs": []} | unsure
    before = (folder / "report.html").read_bytes() if (folder / "report.html").exists() else None
    page = write_report(cleaned, Result.load(folder), figures, np.eye(len(CLASSES))).read_text()
    if before is not None:  # the other tests read the page of what is known
        (folder / "report.html").write_bytes(before)
    told = " ".join(describe_findings(figures))
    for text in (page, told):
        assert "No class is" not in text
        assert "No label is more probably wrong" not in text
    assert page.count("Nothing can be said of this") == 2


def test_a_class_to_distrust_has_its_rate(page: Path) -> None:
    text = re.sub("<[^>]*>", " ", page.read_text())
    assert re.search(r"wrong, at least \(%\)\s+at most \(%\)\s+Sandal\s+333\s+230\s", text)
    assert re.search(r"Sandal\s+333\s+230\s+70\.0\s+64\.3\s+78\.7\s", text)


def test_it_is_small(page: Path) -> None:
    assert page.stat().st_size <= LARGEST


def test_every_number_can_be_looked_up(page: Path, folder: Path) -> None:
    assert check_numbers(page, [Result.load(folder)]) > 100


def test_what_the_owner_reads(page: Path, tab: Tab) -> None:
    tab.open(page.as_uri())
    assert tab.page.title() == "drpl report: holiday photos"
    expect(tab.page.locator("h1")).to_have_text("holiday photos")
    said = tab.page.locator(".lead").inner_text()
    assert re.match(r"Between 24.0 and 37.0\s% of the 3,000 labels are wrong, most likely", said)
    expect(tab.page.locator("main > details > summary h2")).to_have_text(
        [
            "The most suspicious labels",
            "Classes and pairs to distrust",
            "What to do next",
            "For researchers",
        ]
    )
    tiles = tab.page.locator(".large li")
    expect(tiles).to_have_count(WORST)
    worst = CleanedFolder.load(page.parent).issues.iloc[0]
    expect(tiles.first).to_contain_text(f"{worst.given_label} → {worst.suggested_label}")
    assert tab.run("document.querySelector('.large img').naturalWidth") > 100
    rows = tab.page.locator("#first-1 tbody tr")
    expect(rows).to_have_text([re.compile("^Sandal33323070.0"), re.compile("^Coat 2Sandal12.0")])
    expect(tab.page.locator("#first-2")).to_contain_text("drpl review cleaned")
    tab.check()


def test_the_rest_is_folded_and_has_no_empty_column(page: Path, tab: Tab) -> None:
    tab.open(page.as_uri())
    results = tab.page.locator("#researchers #results")
    expect(results).to_be_hidden()
    tab.page.click("#researchers > summary")
    expect(results).to_be_visible()
    expect(tab.page.locator("#researchers")).to_contain_text("trained on <pixels>")
    empty = (
        "[...document.querySelectorAll('table')].flatMap(table => [...table.tHead.rows[0].cells]"
        ".filter((_, k) => [...table.tBodies[0].rows].every(row => row.cells[k].innerText === '–'))"
        ".map(cell => cell.innerText))"
    )
    assert tab.run(empty) == []
    assert "AUROC" not in results.locator("thead").inner_text()
    tab.check()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_it_fits_every_screen(page: Path, tab: Tab, width: int, dark: bool) -> None:
    tab.resize(width, 900, dark=dark)
    tab.open(page.as_uri())
    assert tab.run("document.documentElement.scrollWidth") <= width
    tab.run("document.querySelector('#researchers').open = true")
    assert tab.run("document.documentElement.scrollWidth") <= width
