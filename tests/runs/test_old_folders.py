"""Folders that an earlier version wrote are still of use; see tests/fixtures/README.md."""

import csv
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from tests.conftest import Command

PLACES = [f"/{name}/".encode() for name in ("tmp", "home", "root", "work")]
FIXTURES = Path(__file__).parents[1] / "fixtures"
WRONG = {"left/0.png", "middle/7.png", "top/14.png", "left/21.png", "middle/28.png", "top/35.png"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of `drpl train`."""
    return Path(shutil.copytree(FIXTURES / "run-3521706", tmp_path / "run"))


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    """A folder of `drpl clean`, and beside it the images, where the folder says they are."""
    where = Path(shutil.copytree(FIXTURES / "clean-3521706", tmp_path / "clean"))
    folder = where / "cleaned"
    about = json.loads((folder / "data.json").read_text())
    (folder / "data.json").write_text(json.dumps(about | {"root": str(where / "photos")}))
    return folder


def test_no_path_of_a_machine_is_in_them() -> None:
    files = [path for path in FIXTURES.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 400 * 1024
    for path in files:
        content = path.read_bytes()
        assert not [place for place in PLACES if place in content], path


@pytest.mark.parametrize("kind", ["run", "cleaned"])
def test_report(kind: str, command: Command, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    answer = command("report", folder, "-o", "page.html")
    assert answer.code == 0, answer.err
    page = Path("page.html").read_text()
    assert page.count("<svg") > 3
    assert "relabel" in page
    assert "detect" in page


@pytest.mark.parametrize("kind", ["run", "cleaned"])
def test_score(kind: str, command: Command, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    answer = command("score", folder, "-o", "table.csv")
    assert answer.code == 0, answer.err
    scores = pd.read_csv(folder / "scores.csv")
    assert len(scores) == len(pd.read_csv(folder / "samples.csv"))
    assert len(pd.read_csv("table.csv")) > 3


def test_the_same_command_finds_it_finished(run: Path, command: Command) -> None:
    """Its settings are in the words of that time; see the README of the fixtures."""
    sets = ["relabel.begin=1", "network=mlp", "width=8"]
    for stage in ("relabel", "warmup", "detect", "final"):
        short = ("epochs=2", "rates=[[1,0.05]]", "batch_size=16")
        sets += [f"{stage}_schedule.{text}" for text in short]
    words = [word for text in sets for word in ("--set", text)]
    before = (run / "result.json").read_bytes()
    train = ("train", "digits", "--limit", 120, "--noise", "uniform:0.3", "--out", run, "--quiet")
    answer = command(*train, *words)
    assert answer.code == 0, answer.err
    assert (run / "result.json").read_bytes() == before
    assert not (run / "stages").exists()
    answer = command(*train, *words, "--set", "width=9")
    assert "was made with width 8, but 9 was asked for" in answer.err


def test_predict_with_a_run(run: Path, command: Command) -> None:
    digits, labels = load_digits(return_X_y=True)
    Path("digits").mkdir()
    for k in range(40):
        pixels = (digits[k].reshape(8, 8) * 15.9).astype("uint8")
        Image.fromarray(pixels).save(f"digits/{k:02}.png")
    answer = command("predict", run, "digits", "-o", "named.csv", "--quiet")
    assert answer.code == 0, answer.err
    named = pd.read_csv("named.csv")
    assert len(named) == 40
    assert (named["class"] == labels[:40]).mean() > 0.2  # it was trained for two epochs


def test_predict_with_a_cleaned_folder(cleaned: Path, command: Command) -> None:
    answer = command("predict", cleaned, cleaned.parent / "photos", "-o", "named.csv", "--quiet")
    assert answer.code == 0, answer.err
    suggested = pd.read_csv(cleaned / "samples.csv")["suggested_label"]
    assert pd.read_csv("named.csv")["class"].tolist() == suggested.tolist()


def test_review_and_apply(cleaned: Path, command: Command) -> None:
    issues = pd.read_csv(cleaned / "issues.csv")
    assert set(issues["path"]) == WRONG
    answer = command("review", cleaned, "--page", "page.html", "--who", "Ann")
    assert answer.code == 0, answer.err
    assert Path("page.html").read_text().count("data:image") >= len(issues)

    first, second = issues["id"][:2]
    rows = [(first, "accept", issues["suggested_label"][0]), (second, "outside", "")]
    with Path("decisions.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["time", "who", "id", "action", "label", "why"])
        table.writerows(["2026-01-02T03:04:05Z", "Ann", *row, ""] for row in rows)
    answer = command("review", cleaned, "--import", "decisions.csv")
    assert answer.code == 0, answer.err
    assert "took in 2 decisions" in answer.out

    answer = command("apply", cleaned, "-o", "corrected", "--links")
    assert answer.code == 0, answer.err
    labels = {int(link.name.partition("-")[0]): link.parent.name
              for link in Path("corrected").rglob("*.png")}  # fmt: skip
    samples = pd.read_csv(cleaned / "samples.csv", index_col="id")
    expected = dict(samples["given_label"]) | {first: issues["suggested_label"][0]}
    del expected[second]
    assert labels == expected
