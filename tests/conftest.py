"""The tiny noisy problem everything is tested on, and a way to run the command line."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from pydantic import BaseModel

from drpl.__main__ import main
from drpl.cli.settings import parse_settings
from drpl.config.compose import compose
from drpl.config.settings import Common
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.arrays import arrays
from drpl.randomness import rng
from drpl.registry import METHODS
from drpl.training.schedule import Schedule

settings.register_profile("patient", deadline=None)  # machines are shared
settings.load_profile("patient")
torch.set_num_threads(1)  # tiny tensors: a second thread costs more than it gives

PHASES = {  # settings that are epochs, and after which share of the training theirs comes
    "begin": 0.5,
    "learn_from": 0.4,
    "learn_until": 0.7,
    "select_from": 0.5,
    "positive_from": 0.75,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden", action="store_true", help="write tests/golden/ anew, see test_golden"
    )


def tiny_pixels(count: int, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Three classes of 8 x 8 images: a bright top, a bright left side, a bright middle."""
    draws = rng("tiny", part)
    labels = torch.arange(count) % 3
    pixels = torch.randint(0, 60, (count, 1, 8, 8), generator=draws)
    pixels[labels == 0, :, :3] += 150
    pixels[labels == 1, :, :, :3] += 150
    pixels[labels == 2, :, 2:6, 2:6] += 150
    return pixels.to(torch.uint8), labels


@pytest.fixture(scope="session")
def tiny() -> DatasetSplits:
    """72 training images and 36 test images with right labels."""
    return tiny_data()


def tiny_data() -> DatasetSplits:
    """The tiny problem, also for processes of their own."""
    pixels, labels = tiny_pixels(72, "train")
    test_pixels, test_labels = tiny_pixels(36, "test")
    return arrays(
        pixels.numpy(),
        labels.numpy(),
        test_pixels.numpy(),
        test_labels.numpy(),
        classes=["top", "left", "middle"],
        name="tiny",
    )


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    """The same images as a file."""
    x, y = tiny_pixels(72, "train")
    x_test, y_test = tiny_pixels(36, "test")
    arrays = {"x": x, "y": y, "x_test": x_test, "y_test": y_test}
    path = tmp_path / "tiny.npz"
    content: dict[str, Any] = {name: values.numpy() for name, values in arrays.items()}
    np.savez(path, classes=["top", "left", "middle"], **content)
    return path


def shortened(model: type[BaseModel], epochs: int, path: str = "") -> Iterable[str]:
    """Overrides that make every schedule of a configuration short."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if kind is Schedule:
            yield f"{path}{name}.epochs={epochs}"
            yield f"{path}{name}.rates=[[1, 0.05], [2, 0.02]]"
            yield f"{path}{name}.batch_size=16"
        elif name in PHASES:
            yield f"{path}{name}={max(1, int(epochs * PHASES[name]))}"
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from shortened(kind, epochs, f"{path}{name}.")


# What does not suit every method: a determinant wants larger batches and smaller rates.
TINY = {"dmi": ("schedule.rates=[[1, 0.002]]", "schedule.batch_size=36")}


def in_every_schedule(method: str, setting: str) -> list[str]:
    """One override for all schedules of a method."""
    lines = shortened(METHODS[method].load().Config, 1)
    return [line.replace("epochs=1", setting) for line in lines if line.endswith(".epochs=1")]


def tiny_config(method: str, epochs: int = 3, *settings: str) -> Common:
    """A method's settings for the tiny problem."""
    schema = METHODS[method].load().Config
    tuned = TINY.get(method, ())
    overrides = [*shortened(schema, epochs), "width=4", "flip=false", *tuned, *settings]
    return compose(schema, method, ["small"], parse_settings(overrides))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run `drpl ...` in an empty folder and catch what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["drpl", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        caught = capsys.readouterr()
        assert "Traceback" not in caught.err
        return Answer(int(left.value.code or 0), caught.out, caught.err)

    return run


@pytest.fixture
def mistake(command: Command) -> Callable[..., str]:
    """Run a command that must fail with one sentence and exit code 2, leaving nothing behind."""

    def run(*words: object) -> str:
        answer = command(*words)
        assert answer.code == 2, answer
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1, answer.err
        assert not list(Path().rglob("*.partial"))
        return answer.err

    return run
