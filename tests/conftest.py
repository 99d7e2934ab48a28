"""Fixtures for all tests: the tiny problem, and a way to run the command line."""

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from drpl.__main__ import main
from drpl.data.dataset import DatasetSplits
from drpl.encoders.encoder import load_encoder
from drpl.report.style import Picture
from tests.support.tiny import tiny_data, tiny_pixels

pytest_plugins = ["tests.support.browser"]
settings.register_profile("patient", deadline=None)  # machines are shared
settings.load_profile("patient")
# What kills, limits or forks processes, in ways that Windows does not have.
POSIX = ["campaign", "cli/test_cli.py", "data/test_hostile.py", "detection/test_probabilities.py"]
POSIX += ["encoders/test_encode.py", "encoders/test_ray_engine.py", "experiments/test_grid.py"]
POSIX += ["runs/test_distributed.py", "runs/test_kill.py", "runs/test_machine.py", "test_files.py"]
collect_ignore = POSIX if sys.platform == "win32" else []
torch.set_num_threads(1)  # tiny tensors: a second thread costs more than it gives


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden", action="store_true", help="write tests/golden/ anew, see test_golden"
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of all: what was skipped, and why."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or not terminal.stats:  # a process of several, or no tests were run
        return
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminal.stats.get("skipped", [])
    )
    listed = [f"{count} {reason}" for reason, count in sorted(reasons.items())]
    terminal.write_line(f"skipped: {'; '.join(listed) or 'nothing'}")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a test run see."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def converted(shared: Path) -> Path:
    """A cache that has `lite0` for 64 pixels a side."""
    load_encoder("lite0", size=64, cache=shared / "encoders" / "features")
    return shared / "encoders"


@pytest.fixture(scope="session")
def tiny() -> DatasetSplits:
    """72 training images and 36 test images with right labels."""
    return tiny_data()


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


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made but not drawn, which takes most of a report's time; tests/report draws."""
    monkeypatch.setattr(Picture, "render_svg", lambda *_, **__: "<svg></svg>")
    monkeypatch.setattr(Picture, "render_png", lambda *_, **__: b"\x89PNG")


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
