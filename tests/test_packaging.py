"""What is built can be installed, and what it needs is written down."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cleaned import CLASSES, draw

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST = 15  # packages besides torch


def test_core_dependencies_are_few_and_each_has_a_reason() -> None:
    names = {re.split(r"[<>=\[ ]", one)[0] for one in PROJECT["dependencies"]} - {"torch"}
    assert len(names) <= MOST
    page = (ROOT / "docs" / "dependencies.md").read_text()
    core, _, extras = page.partition("| extra |")
    assert names == set(re.findall(r"^\| `([\w-]+)` \| \w", core, re.MULTILINE))
    named = set(re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| (`[^|]+)\|", extras, re.M))))
    assert named == set(PROJECT["optional-dependencies"]) - {"dev", "docs"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_built_can_be_installed_and_run(kind: str, tmp_path: Path) -> None:
    """In an environment of its own, which borrows the dependencies of this one; `make wheel`."""
    pytest.importorskip("build")
    run(sys.executable, "-m", "build", f"--{kind}", "--outdir", tmp_path, ROOT)
    (built,) = (path for path in tmp_path.iterdir() if path.suffix in (".whl", ".gz"))
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", built)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    borrowed = [site, *(path for path in sys.path if "-packages" in path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(borrowed)}
    where = run(python, "-c", "import drpl; print(drpl.__file__)", env=env, cwd=tmp_path)
    assert where.startswith(str(tmp_path))
    words = ["-m", "drpl", "train", "digits", "--method", "cross_entropy", "--limit", "60"]
    words += ["--set", "schedule.epochs=1", "--json"]
    assert '"method": "cross_entropy"' in run(python, *words, env=env, cwd=tmp_path)
    draw_photos(tmp_path / "photos")
    run(python, "-m", "drpl", "clean", "photos", "--budget", "5s", env=env, cwd=tmp_path)
    assert (tmp_path / "cleaned" / "issues.csv").stat().st_size


def draw_photos(folder: Path) -> None:
    """Ten images of each class."""
    draws = np.random.default_rng(1)
    for kind, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            draw(kind, draws).save(folder / name / f"{number}.png")


def run(*words: Any, **how: Any) -> str:
    """What a command says, which must succeed."""
    return str(subprocess.run(words, check=True, capture_output=True, text=True, **how).stdout)
