"""The report: every number is what the folders say, and it is honest about what they do not."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.errors import RunError
from drpl.report.load import load_runs
from drpl.report.page import Section, is_complete, report, watch
from drpl.runs.folder import Result
from tests.conftest import Command
from tests.support.run_folders import NOISES, Recipe, write_run
from tests.support.tiny import tiny_config

VERBATIM = {"pre", "code", "svg", "style", "script", "title"}  # shown as files have it, or drawn
VOID = {"meta", "link", "img", "br"}


@dataclass
class Shown:
    """What stands on a page."""

    numbers: list[tuple[dict[str, str], str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)


class Walker(HTMLParser):
    """Sorts all text of a page into numbers, names and prose."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str]]] = []
        self.shown = Shown()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop()[0] == tag, "tags that do not fit together"

    def handle_data(self, data: str) -> None:
        if any(tag in VERBATIM for tag, _ in self.open) or not data.strip():
            return
        tag, about = self.open[-1]
        if tag == "data":
            self.shown.numbers.append((about, data))
        elif about.get("class") == "name":
            self.shown.names.append(data)
        else:
            self.shown.prose.append(data)


def walked(page: Path) -> Shown:
    walker = Walker()
    walker.feed(page.read_text())
    walker.close()
    assert not walker.open
    return walker.shown


def looked_up(about: dict[str, str], runs: list[Result]) -> float:
    """The number again, from the files that it names."""
    folders = [runs[int(k)].folder for k in about["data-runs"].split()]
    file, key, how = about["data-file"], about["data-key"], about.get("data-how", "")
    if file == "published.csv":
        return printed_in_the_paper(runs[int(about["data-runs"])], key)
    if how == "number of files":
        return len(list((folders[0] / file).glob("*.json")))
    if file == "history.jsonl":
        return read_history(folders[0] / file, key, how)
    values = [from_file(folder / file, key) for folder in folders]
    if how == "number of runs":
        return len(values)
    if how == "mean":
        return mean(values)
    if how == "standard deviation":
        return stdev(values)
    assert not how
    assert len(values) == 1
    return values[0]


def from_file(path: Path, key: str) -> float:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return float(eval(key, {"__builtins__": {}}, dict(arrays)))
    tree: Any = tomllib.loads(path.read_text()) if path.suffix == ".toml" else {}
    tree = tree or json.loads(path.read_text())
    for part in key.split("."):
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    return float(tree)


def read_history(path: Path, key: str, how: str) -> float:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    if how == "last row":
        return float(rows[-1][key])
    if how == "number of rows":
        return len(rows)
    if how == "sum of rows":
        return float(sum(row[key] for row in rows))
    assert how == "best row of the latest stage"
    return float(max(row[key] for row in rows if row["stage"] == rows[-1]["stage"]))


def printed_in_the_paper(run: Result, key: str) -> float:
    table = pd.read_csv(str(files("drpl.report").joinpath("published.csv")), dtype=str)
    s = run.summary
    mine = table[(table.method == s["method"]) & (table.dataset == s["dataset"])]
    values = [float(v) for v in mine[key].dropna()]
    assert values
    return next(v for v in values)


def check_numbers(page: Path, runs: list[Result]) -> int:
    """All numbers are right, shown as they are, and none stands there without a source."""
    shown = walked(page)
    for about, text in shown.numbers:
        value = float(about["value"])
        assert value == pytest.approx(looked_up(about, runs), rel=1e-9, abs=1e-12), about
        digits = len(text.partition(".")[2])
        said, half = float(text.replace(",", "")), 0.5000001 * 10**-digits
        assert abs(said - value) <= half or abs(said - 100 * value) <= half, (about, text)
    for text in shown.prose:
        assert not re.search(r"\d", text), f"{text!r} has a number that nobody can look up"
    known = "\n".join(
        path.read_text()
        for run in runs
        for path in run.folder.rglob("*")
        if path.suffix in (".json", ".toml", ".csv", ".jsonl")
    )
    for text in shown.names:
        for word in re.findall(r"[\w./+:-]*\d[\w./+:-]*", text):
            plain = word.strip(".:,")
            assert plain in known or plain in str([run.folder for run in runs]), text
    return len(shown.numbers)


def test_every_number_of_a_run(run: Path, run_page: Path) -> None:
    assert check_numbers(run_page, load_runs([run])) > 200


def test_every_number_of_a_comparison(comparison: Path, comparison_page: Path) -> None:
    runs = load_runs([comparison])
    assert len(runs) == 50
    assert check_numbers(comparison_page, runs) > 1500
    text = comparison_page.read_text()
    assert comparison_page.stat().st_size < 5e6
    for noise in NOISES:
        assert f'Figures: <span class="name">made, {noise}</span>' in text
    assert "Highest accuracy after the last epoch" in text


def test_every_number_of_a_run_that_was_trained(tiny: DatasetSplits, tmp_path: Path) -> None:
    """The whole way: train, then report on what lies in the folder."""
    runs = [
        drpl.train(
            tiny, method="drpl", config=tiny_config("drpl"), noise="uniform:0.4", seed=seed,
            out=tmp_path / f"seed-{seed}", quiet=True, track_every=1,
        )
        for seed in (1, 2)
    ]  # fmt: skip
    page = drpl.report(runs, tmp_path / "page.html")
    assert check_numbers(page, runs) > 200
    text = page.read_text()
    assert text.count('<img src="data:image/png') > 10
    assert "Losses over epochs" in text


def test_a_number_that_was_changed_is_found(run: Path, run_page: Path, tmp_path: Path) -> None:
    """The check above can fail."""
    page, text = tmp_path / "page.html", run_page.read_text()
    value = re.search(r'<data value="([\d.]+)"[^>]*data-key="detection.auroc"', text)
    assert value
    page.write_text(text.replace(f'value="{value[1]}"', 'value="0.5"', 1))
    with pytest.raises(AssertionError):
        check_numbers(page, load_runs([run]))
    page.write_text(text.replace("</h1>", "</h1><p>It is 99 % right.</p>", 1))
    with pytest.raises(AssertionError, match="nobody can look up"):
        check_numbers(page, load_runs([run]))


def test_without_truth_test_set_and_images(blind: Path, tmp_path: Path) -> None:
    page = report([blind], tmp_path / "page.html")
    text = page.read_text()
    assert check_numbers(page, load_runs([blind])) > 100
    assert "no AUROC, no precision and no recall" in text
    assert "nobody knows how accurate the model is" in text
    assert "The images cannot be shown" in text
    assert "<img" not in text
    for missing in ("Accuracy over epochs", "Which labels are kept", "What became of the labels"):
        assert missing not in text
    assert "the truth about the labels: no AUROC" in text


def test_a_run_that_still_trains(run: Path, tmp_path: Path) -> None:
    begun = write_run(tmp_path / "begun", Recipe(seed=2), finished=False)
    with (begun / "history.jsonl").open("a") as file:
        file.write('{"stage": "final", "epo')  # torn by a kill
    page = report([run, begun], tmp_path / "page.html")
    assert "Still training" in page.read_text()
    shown = walked(page)
    lines = (begun / "history.jsonl").read_text().splitlines()[:-1]
    (begun / "history.jsonl").write_text("".join(line + "\n" for line in lines))
    assert check_numbers(page, load_runs([run, begun])) > 200
    assert any(about["data-file"] == "history.jsonl" for about, _ in shown.numbers)
    alone = report([begun], tmp_path / "alone.html", reload=5).read_text()
    assert "is still training" in alone
    assert 'data-reload="5"' in alone
    assert "The galleries come when the run is finished" in alone


def test_a_run_that_has_just_begun(run: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(run / "config.toml", begun)
    page = report([begun], tmp_path / "page.html")
    assert "is still training" in page.read_text()
    (begun / "config.toml").write_text("nothing = ")
    with pytest.raises(RunError, match="damaged"):
        report([begun], tmp_path / "page.html")


@pytest.mark.slow
def test_watching_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpl.report.page.POLL", 0.1)
    monkeypatch.setattr("drpl.report.page.REST", 0)  # tests need the whole machine
    folder, out = tmp_path / "run", tmp_path / "page.html"
    write_run(folder, Recipe(epochs=4), finished=False)
    states = watch([folder], out, every=3)
    assert next(states) == 1
    assert 'data-reload="3"' in out.read_text()
    later = threading.Timer(0.5, lambda: write_run(folder, Recipe(epochs=6)))
    later.start()
    last = list(states)
    later.join()
    assert last[-1] == 0
    assert "data-reload=" not in out.read_text()
    assert check_numbers(out, load_runs([folder])) > 200


def test_a_comparison_is_complete_once_it_has_its_table(comparison: Path, tmp_path: Path) -> None:
    """Until then cells may come that nobody has begun."""
    place = comparison / "runs" / "ood-0.6" / "drpl" / "seed-1"
    assert is_complete(comparison)
    assert is_complete(place)
    (tmp_path / "runs").mkdir()
    assert not is_complete(tmp_path)


def test_names_cannot_break_out_and_sections_are_taken_as_they_are(
    run: Path, tmp_path: Path
) -> None:
    evil = tmp_path / "evil"
    shutil.copytree(run, evil)
    summary = json.loads((evil / "result.json").read_text())
    summary["classes"][0] = "<script>alert(1)</script>"
    summary["notes"] = ["<img src=x onerror=alert(2)>"]
    (evil / "result.json").write_text(json.dumps(summary))
    more = [Section("Review & more", "<p id='mine'>Seven decisions.</p>")]
    text = report([evil], tmp_path / "page.html", sections=more).read_text()
    assert text.count("<script>") == 1
    assert "<img src=x" not in text
    assert "<h2>Review &amp; more</h2>" in text
    assert "<p id='mine'>Seven decisions.</p>" in text


def test_equal_folders_give_equal_pages_and_nothing_is_fetched(
    run: Path, run_page: Path, tmp_path: Path
) -> None:
    """`drpl.report` is a package and the function, also after a module of it was imported."""
    assert isinstance(sys.modules["drpl"].report, ModuleType)
    first = drpl.report([Result.load(run)], tmp_path / "first.html").read_text()
    assert run_page.read_text() == first
    addresses = re.findall(r"""(?:src=|href=|url\()["']?([^"')]*)""", first)
    assert addresses
    assert all(address.startswith(("data:", "#")) for address in addresses)
    spaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"'<>]+", first)) <= spaces
    assert "default-src &#39;none&#39;" in first


def test_damage_is_a_sentence(run: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    (broken / "samples.npz").write_bytes(b"x" * 100)
    with pytest.raises(RunError, match=r"samples\.npz is damaged"):
        report([broken], tmp_path / "page.html")
    with pytest.raises(RunError, match="not the folder of a run"):
        report([tmp_path / "nowhere"], tmp_path / "page.html")


def test_the_commands(command: Command, run: Path, comparison: Path) -> None:
    assert "wrote page.html" in command("report", run, "-o", "page.html").out
    assert "all ended" in command("report", run, "-o", "watched.html", "--watch").out
    one = comparison / "runs" / "ood-0.6" / "drpl"
    assert "9 figures" in command("figures", one / "seed-1", "-o", "drawn").out
    assert len(list(Path("drawn").glob("*.svg"))) == len(list(Path("drawn").glob("*.png"))) == 9


@pytest.mark.slow
def test_folders_from_elsewhere_without_torch(run: Path, tmp_path: Path) -> None:
    """Report and figures in a process in which torch and the data set cannot be had."""
    shutil.copytree(run, tmp_path / "copied")
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
import drpl
drpl.figures(["copied"], "drawn")
sys.argv = ["drpl", "report", "copied", "-o", "page.html"]
from drpl.__main__ import main
main()
"""
    source = str(Path(drpl.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "drawn").iterdir())) == 18
    assert check_numbers(tmp_path / "page.html", load_runs([run])) > 200
