import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review import page
from tests.cleaning.test_apply import decide
from tests.cli.test_cli import Mistake
from tests.conftest import Command
from tests.support.cleaned import CLASSES, add_found, make, rows

EVIL = '</script><script>alert("x")</script><!-- @DATA@'


def data_of(text: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1
    return dict(json.loads(found[0]))


def test_a_page_holds_all_it_needs(command: Command, tmp_path: Path) -> None:
    made = make(tmp_path, 60)
    issues = CleanedFolder.load(made.folder).issues
    first = int(issues.index[0])
    decide(made.folder, (first, "keep", ""))
    answer = command("review", made.folder, "--page", "page.html", "--reviewer", "Eve")
    assert answer.code == 0, answer.err
    assert f"wrote page.html with {len(issues)} issues" in answer.out
    text = Path("page.html").read_text()
    assert not re.findall(r"https?://", text)
    assert "default-src 'none'" in text
    data = data_of(text)
    assert data["who"] == "Eve"
    assert data["issues"]["index"] == list(issues.index)
    assert [(line["id"], line["action"]) for line in data["decisions"]] == [(first, "keep")]
    near = {
        int(word)
        for cell in [*issues["near_given"], *issues["near_suggested"]]
        for word in cell.split()
    }
    assert set(map(int, data["images"])) == near | set(issues.index)
    head, _, coded = data["images"][str(first)].partition(",")
    assert head == "data:image/png;base64"
    assert Image.open(io.BytesIO(base64.b64decode(coded))).size == (48, 40)


def test_names_cannot_break_out(tmp_path: Path) -> None:
    made = make(tmp_path)
    cleaned = CleanedFolder.load(made.folder)
    text = page.fill_page("", {"classes": [EVIL, *CLASSES]})
    assert data_of(text)["classes"][0] == EVIL
    assert text.count("<script>") == page.read_part("page.html").count("<script>")
    assert page.describe(cleaned, EVIL)["who"] == EVIL


def test_tabs_are_for_what_was_found(tmp_path: Path) -> None:
    made = make(tmp_path)
    assert page.encode_found(CleanedFolder.load(made.folder)) == {"pairs": [], "outliers": []}
    strange = add_found(made)
    found = page.encode_found(CleanedFolder.load(made.folder))
    assert [row["id"] for row in found["outliers"]] == strange
    assert found["outliers"][0]["p_noisy"] == made.samples.at[strange[0], "p_noisy"]
    assert len(found["pairs"]) == 4


def test_the_worst_of_too_many(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, 60)
    monkeypatch.setattr(page, "MOST", 5)
    issues = CleanedFolder.load(made.folder).issues
    answer = command("review", made.folder, "--page", "page.html")
    assert f"with 5 issues, the worst of {len(issues)}" in answer.out
    assert data_of(Path("page.html").read_text())["issues"]["index"] == list(issues.index[:5])


def test_a_page_takes_no_other_files_place(mistake: Mistake, tmp_path: Path) -> None:
    """`--page cleaned/issues.csv` wrote the page over the list."""
    folder = make(tmp_path).folder
    (folder / "report.html").write_text("the report")
    before = (folder / "issues.csv").read_bytes()
    told = mistake("review", folder, "--page", folder / "issues.csv")
    assert "a file that ends with .html" in told
    assert (folder / "issues.csv").read_bytes() == before
    assert "is the report" in mistake("review", folder, "--page", folder / "report.html")
    assert (folder / "report.html").read_text() == "the report"


def test_import(command: Command, mistake: Mistake, tmp_path: Path) -> None:
    made = make(tmp_path)
    number = CleanedFolder.load(made.folder).issues.index[0]
    Path("d.csv").write_text(f"time,who,id,action,label,why\nt,Eve,{number},accept,,\n")
    assert "took in 1 decision\n" in command("review", made.folder, "--import", "d.csv").out
    assert "0 decisions; 1 was there" in command("review", made.folder, "--import", "d.csv").out
    assert rows(made.folder / "decisions.csv")[0]["who"] == "Eve"
    assert "cannot read none.csv" in mistake("review", made.folder, "--import", "none.csv")
    assert "one at a time" in mistake("review", made.folder, "--import", "d.csv", "--page", "p")
    assert "choose another name" in mistake("review", made.folder, "--reviewer", "model")
    Path("unsigned.csv").write_text(f"time,who,id,action,label,why\nt,,{number},keep,,\n")
    taken = command("review", made.folder, "--import", "unsigned.csv", "--reviewer", "Ann")
    assert "took in 1 decision\n" in taken.out
    assert rows(made.folder / "decisions.csv")[-1]["who"] == "Ann"
    assert "drpl clean" in mistake("review", "nowhere")
