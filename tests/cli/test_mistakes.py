"""A user's mistake is one sentence and exit code 2, whatever it is."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.support.tiny import brief_options

pytestmark = pytest.mark.usefixtures("undrawn")

Mistake = Callable[..., str]
BRIEF = ["--method", "cross_entropy", "--limit", "20", *brief_options("cross_entropy"), "--quiet"]
TRAIN = ("train", "digits", "--out", "run", *BRIEF)


@pytest.mark.parametrize(
    "text",
    [
        *("width=1979-05-27", "width=nan", "width=inf", "width=99999999999999999999", "width="),
        *(
            "width=8\nflip=true",
            "a..b=1",
            "schedule.epochs=99999999999999999999",
            "schedule.epochs=nan",
        ),
        *("schedule.lr=[[1, nan]]", "schedule.lr=[[1, inf]]", "schedule.lr=[[1, 1e400]]"),
        *("padding=nan", "width={}", "schedule=3", "=", "width", ".=1", "a.=1", "width=07:32:00"),
    ],
)
def test_settings(mistake: Mistake, text: str) -> None:
    mistake(*TRAIN, "--set", text)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("train", "digits", "--noise", ""),
        ("noise", "digits", "--noise", "", "-o", "x"),
        ("noise", "digits", "--noise", " ", "-o", "x"),
        ("train", "digits", "--noise", "nonuniform:0.2", "--confusion", "empty"),
        ("train", "digits", "--noise", "transition:empty.csv"),
        ("train", "x" * 300),
        ("train", "digits", "--out", "x" * 300, *BRIEF),
        ("train", "digits", "--out", "a/" + "b" * 5000, *BRIEF),
        ("doctor", "/" + "x/" * 3000),
        ("predict", "x" * 300, "photos"),
        ("report", "x" * 300),
        ("compare", "nosuchset", "--methods", "mixup", "-o", "grid"),
        ("compare", "nosuch/folder", "--methods", "mixup", "-o", "grid"),
        ("study", "nosuchset", "-o", "study"),
        ("compare", "digits", "--methods", "mixup", "--noise", "", "-o", "grid"),
        ("compare", "digits", "--methods", "mixup", "--ood", "nosuchset", "-o", "grid"),
        ("train", "", "--out", "run"),
        ("clean", "digits", "-o", "out", "--decisions", "."),
        ("train", "digits", "--preset", "."),
        ("train", "digits", "--preset", "nothing.toml"),
    ],
)
def test_arguments(mistake: Mistake, words: tuple[str, ...]) -> None:
    Path("empty").touch()
    Path("empty.csv").touch()
    mistake(*words)
    assert {path.name for path in Path().iterdir()} <= {"empty", "empty.csv", ".drpl-cache"}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to the administrator")
def test_folders_that_may_not_be_read(mistake: Mistake) -> None:
    Path("closed").mkdir(mode=0)
    assert "ermission" in mistake("doctor", "closed")


def test_folders_that_cannot_be_read(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("photos/cat").mkdir(parents=True)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "photos")

    monkeypatch.setattr("os.scandir", refuse)
    assert "Permission denied (photos)" in mistake("doctor", "photos")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import drpl

    where = tmp_path_factory.mktemp("mistakes") / "run"
    data = drpl.load("digits", drpl.ReadOptions(limit=20))
    drpl.train(data, method="cross_entropy", preset="digits", out=where, quiet=True,
               settings={"schedule": {"epochs": 1}, "width": 4})  # fmt: skip
    return where


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("result.json", {"samples": "many"}),
        ("result.json", {"accuracy": None}),
        ("result.json", {"stages": [{}]}),
        ("result.json", {"seconds": float("nan")}),
        ("result.json", {"classes": [1, 2]}),
    ],
)
def test_damaged_results(
    finished: Path, mistake: Mistake, name: str, change: dict[str, object]
) -> None:
    run = Path(shutil.copytree(finished, "run"))
    about = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps(about | change))
    assert f"{name} is damaged" in mistake("report", "run", "-o", "page.html")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("history.jsonl", '"epoch": 1', '"epoch": "one"'),
        ("history.jsonl", "{", "["),
        ("history.jsonl", '"terms": {', '"terms": 3, "x": {'),
        ("config.toml", "samples = 20", 'samples = "many"'),
        ("config.toml", "[run]", "[walk]"),
        ("config.toml", "seed = 1", "seed = 1979-05-27"),
        ("samples.csv", "p_noisy", "p_silent"),
        ("samples.csv", "confidence", "coincidence"),
        ("samples.csv", "\n3,", "\nthree,"),
        ("provenance.json", '"data": {', '"data": 3, "x": {'),
        ("noise.json", '"spec": null', '"spec": 3'),
    ],
)
def test_damaged_texts(finished: Path, command: Command, name: str, old: str, new: str) -> None:
    run = Path(shutil.copytree(finished, "run"))
    text = (run / name).read_text()
    assert old in text
    (run / name).write_text(text.replace(old, new, 1))
    answers = [command("score", "run"), command("look", "run", "-o", "seen")]
    (run / "result.json").unlink()
    answers.append(command("report", "run", "-o", "page.html"))
    assert any(f"{name} is damaged" in answer.err for answer in answers)
    assert {answer.code for answer in answers} <= {0, 2}


def test_formulas_are_quoted(command: Command) -> None:
    """A spreadsheet would run the name of a class, or of a file."""
    from PIL import Image

    names = ('=HYPERLINK("http://x")', "@SUM(A1)")
    for k in range(12):
        path = Path("photos") / names[k % 2].replace("/", "_") / f"-{k}+.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 20 * k).save(path)
    assert command("train", "photos", "--out", "run", *BRIEF).code == 0
    assert command("noise", "photos", "--noise", "uniform:0.3", "-o", "noisy").code == 0
    assert command("predict", "run", "photos", "-o", "named.csv", "-q").code == 0
    assert command("score", "run").code == 0
    for name in ("run/samples.csv", "run/scores.csv", "noisy/labels.csv", "named.csv"):
        for cell in Path(name).read_text().replace("\n", ",").split(","):
            assert cell.strip('"')[:1] not in ("=", "@", "+"), (name, cell)
    from drpl.runs.folder import Result

    assert set(Result.load("run").samples["given_label"]) == {n.replace("/", "_") for n in names}


def test_files_of_a_run_are_not_written_over(command: Command) -> None:
    assert command("train", "digits", "--out", "run", *BRIEF).code == 0
    before = Path("run/samples.csv").read_bytes()
    for words in (("predict", "run", "digits"), ("export", "run", "--to", "torch")):
        answer = command(*words, "-o", "run/samples.csv")
        assert (answer.code, "is inside the run folder" in answer.err) == (2, True), answer.err
    assert Path("run/samples.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "told", "untold"),
    [
        (("clean", "digits", "-o", "x", "--buget", "1m"), "--budget", "--out"),
        (("export", "run", "--to", "onxx", "-o", "x"), "'onxx' is not one of", "Value error"),
    ],
)
def test_options_are_corrected_in_few_words(
    command: Command, words: tuple[str, ...], told: str, untold: str
) -> None:
    answer = command(*words)
    assert answer.code == 2
    assert told in answer.err
    assert untold not in answer.err
