"""The docs as a site: no warning, every public name, nothing loaded from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import drpl

ROOT = Path(__file__).parents[1]


class Loads(HTMLParser):
    """Addresses that a browser fetches by itself; links that a reader may follow are none."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "srcset", "poster", "data") or (name == "href" and tag != "a"):
                self.found.append(value or "")


@pytest.fixture(scope="module")
def links() -> Any:
    """docs/links.py, which MkDocs calls; it needs none of it."""
    spec = spec_from_file_location("links", ROOT / "docs" / "links.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rewrite(links: Any, markdown: str, root: Path, name: str = "page.md") -> str:
    """A page as MkDocs gets it, in a project there."""
    page = SimpleNamespace(file=SimpleNamespace(src_path=name))
    config = SimpleNamespace(config_file_path=str(root / "mkdocs.yml"))
    return str(links.on_page_markdown(markdown, page, config, files=None))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    where = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(where)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return where


def test_links_to_files_outside_become_their_names(links: Any, tmp_path: Path) -> None:
    (tmp_path / "GUIDE.md").write_text("# Guide\n\n## A new `method`, in 3 steps?\n")
    for given, wanted in {
        "a [text](../GUIDE.md).": "a text (`GUIDE.md`).",
        "[here](../GUIDE.md#a-new-method-in-3-steps)": "here (`GUIDE.md`)",
        "[one](../GUIDE.md), [two](../GUIDE.md#guide)": "one (`GUIDE.md`), two (`GUIDE.md`)",
        "[page](own.md#part), [part](#part), [site](https://a.b/../c)": None,
    }.items():
        assert rewrite(links, given, tmp_path) == (wanted or given)


def test_links_to_what_is_not_there_are_warned_of(
    links: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "GUIDE.md").write_text("# Guide\n")
    rewrite(links, "[a](../NONE.md) [b](../GUIDE.md#nothing) [c](../GUIDE.md#guide)", tmp_path)
    assert caplog.messages == [
        "page.md links to NONE.md, which is not there",
        "page.md links to nothing in GUIDE.md, no heading of it",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}  # --strict stops


def test_no_page_links_above_the_site(links: Any, caplog: pytest.LogCaptureFixture) -> None:
    for page in ROOT.glob("docs/*.md"):
        assert "](../" not in rewrite(links, page.read_text(), ROOT, page.name), page
    assert not caplog.messages


def test_every_page_is_there(site: Path) -> None:
    for page in ROOT.glob("docs/*.md"):
        text = (site / f"{page.stem}.html").read_text()
        assert "<h1" in text, page
        assert '"../' not in text, page  # nothing above the site
    assert not (site / "links.py").exists()


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    outside = re.compile(r"(https?:)?//")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        reader = Loads()
        reader.feed(page.read_text())
        assert reader.found
        assert not [address for address in reader.found if outside.match(address)], page
        for style in re.findall(r"<style.*?</style>", page.read_text(), re.DOTALL):
            assert not re.search(r"url\(['\"]?(https?:)?//|@import", style), page
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text()), sheet


def test_the_api_has_every_public_name() -> None:
    """Whether or not the site can be built here."""
    named = re.findall(r"^::: drpl\.(\w+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(drpl.__all__)


def test_the_api_shows_docstrings(site: Path) -> None:
    text = (site / "api.html").read_text()
    for name in drpl.__all__:
        assert f'id="drpl.{name}"' in text, name
    assert "Find the wrong labels of a data set" in text  # drpl.clean
