"""The tutorial, followed to the letter, and its pictures: `make screenshots` keeps them."""

import os
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import expect

from tests.cleaning.review.test_browser import LOADED, reviewing
from tests.conftest import Command
from tests.support.browser import Tab
from tests.support.datasets import REAL, real_data
from tests.support.messy import NAMES, Messy

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
SHOTS = Path(os.environ.get("DRPL_SCREENSHOTS", Path(__file__).parents[2] / "build/screenshots"))
SEEN = (  # every image that can be seen has come
    "document.images.length > 12 && [...document.images].every(image => "
    "image.naturalWidth > 0 && !image.classList.contains('waiting') || "
    "(box => !box.width || box.bottom < 0 || box.top > innerHeight)(image.getBoundingClientRect()))"
)
SHORT = ["--set", "schedule.epochs=1", "--set", "width=4", "--size", "8", "--quiet"]


def commands() -> tuple[list[list[str]], list[list[str]]]:
    """The lines of the tutorial that a reader types: about the digits, and about photos."""
    digits, photos = (
        [shlex.split(line)[1:] for line in re.findall(r"^    (drpl .*)$", part, re.MULTILINE)]
        for part in TUTORIAL.read_text().split("## 5. The same with photos")
    )
    return digits, photos


def test_every_command_works(cleaned: Path, messy: Messy, tmp_path: Path, command: Command) -> None:
    Path("photos").symlink_to(messy.folder)
    shutil.copytree(cleaned, "cleaned")  # the first command finds it finished
    done = []
    for words in commands()[0]:
        if words[0] == "review":
            continue  # see the browser below
        answer = command(*words, *(SHORT if words[0] == "train" else ()))
        unread = "torn.jpg" in answer.err  # predict says so and goes on
        assert answer.code == (1 if unread else 0), answer.err
        done.append(words[0])
    assert done == ["clean", "apply", "apply", "train", "predict", "export"]
    assert sorted(path.name for path in Path("corrected").iterdir() if path.is_dir()) == sorted(
        NAMES
    )
    assert len(pd.read_csv("named.csv")) == len(messy.truth)
    assert Path("model.onnx").stat().st_size > 10_000


@real_data
@pytest.mark.slow
def test_every_command_about_photos_works(
    messy: Messy, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRPL_DATA", str(REAL))
    Path("photos").symlink_to(messy.folder)
    done = []
    for words in commands()[1]:
        brief = {"noise": ("--limit", 300), "clean": ("--budget", "20s", "--repeats", 1)}
        answer = command(*words, *brief.get(words[0], ()))
        assert answer.code == 0, answer.err
        done.append(words[0])
    assert done == ["noise", "clean", "predict", "export"]
    assert "trained on features of lite0" in Path("cleaned-photos/summary.md").read_text()
    assert len(pd.read_csv("named-photos.csv")) > 100


def test_its_pictures(cleaned: Path, tab: Tab) -> None:
    with reviewing(cleaned) as (address, _):
        tab.open(address)
        expect(tab.page.locator(".card")).not_to_have_count(0)
        tab.page.click("#skip")
        expect(tab.page.locator("#verdict")).to_be_visible()
        tab.press("ArrowRight", "ArrowRight")
        tab.wait(SEEN)
        tab.shoot(SHOTS / "review.png")
        tab.press("x", "Shift+ArrowRight", "Shift+ArrowRight")
        expect(tab.page.locator("#picked-text")).to_have_text("3 selected")
        tab.wait(SEEN)
        tab.shoot(SHOTS / "review-selected.png")
        tab.press("Escape")
        tab.page.select_option("#verdict", "outside")
        every = "[...document.querySelectorAll('.card small')].every"
        tab.wait(f"{every}(text => text.textContent.includes('outside'))")
        tab.wait(SEEN)
        tab.shoot(SHOTS / "review-outside.png")
        tab.check()
        tab.open((cleaned / "report.html").as_uri())
        tab.wait(LOADED)
        assert str(cleaned.parent) not in tab.run("document.body.innerText")  # nobody's folders
        tab.shoot(SHOTS / "report.png")
    pages = TUTORIAL.read_text() + (TUTORIAL.parent / "review.md").read_text()
    shown = re.findall(r"\(images/((?:review|report)[\w-]*\.png)\)", pages)
    assert len(set(shown)) == 4
    assert {SHOTS / name for name in shown} <= set(SHOTS.iterdir())
