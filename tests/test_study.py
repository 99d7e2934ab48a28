"""The study: what its folder holds, that it is made of the runs, and that nothing is done twice."""

import functools
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import drpl
from drpl import grid, studying
from drpl.data.arrays import arrays
from drpl.data.dataset import Data
from drpl.files import write_changed
from drpl.result import Result
from drpl.run import Run
from drpl.studying import Study, looked, study
from tests.conftest import Command, shortened, tiny_data
from tests.test_probe import target

NOISES = ("uniform:0.25", "ood:0.25")
METHODS = ("cross_entropy", "drpl")


def settings(epochs: int = 2) -> list[str]:
    """Short trainings of both methods."""
    found = ["width=4", "flip=false"]
    for method in METHODS:
        schema = grid.METHODS[method].load().Config
        found += [f"{method}:{text}" for text in shortened(schema, epochs)]
    return found


SHORT: dict[str, Any] = {
    "methods": METHODS,
    "settings": settings(),
    "jobs": 1,
    "quiet": True,
    "track_every": 1,
}


def with_corners() -> Data:
    """The tiny problem, with images of four other classes outside."""
    return replace(tiny_data(), outside=target().train)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The stages that are trained from now on."""
    names: list[str] = []
    fit = Run.fit

    @functools.wraps(fit)
    def counted(self: Run, name: str, *rest: Any, **more: Any) -> Any:
        names.append(name)
        return fit(self, name, *rest, **more)

    monkeypatch.setattr(Run, "fit", counted)
    yield names


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study(with_corners(), noises=NOISES, out=tmp_path_factory.mktemp("s") / "s", **SHORT)


def dates(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_the_folder(made: Study) -> None:
    out = made.folder
    assert not made.comparison.failures
    for name in ("table.csv", "table.md", "stages.csv", "separation.csv", "detectors.csv"):
        assert (out / name).stat().st_size > 100
    for case in ("tiny-uniform-0.25", "tiny-ood-0.25"):
        for kind in ("accuracy", "roc", "losses"):
            assert (out / "figures" / f"{case}-{kind}.svg").exists()
            assert (out / "figures" / f"{case}-{kind}.png").exists()
    for method in METHODS:
        for kind in ("histogram", "posterior", "detectors", "transition", "flow"):
            assert (out / "figures" / f"{method}-tiny-uniform-0.25-seed-1-{kind}.svg").exists()
    probes = pd.read_csv(out / "probes" / "probes.csv", keep_default_na=False)
    assert probes.method.tolist() == [*["cross_entropy"] * 4, *["drpl"] * 4] * 2 + ["untrained"] * 4
    assert "4 classes of tiny, outside" in (out / "probes" / "probes.svg").read_text()
    page = (out / "report.html").read_text()
    assert "How well losses separate" in page
    assert "What networks know of other classes" in page
    assert any("was shown images from outside" in note for note in made.notes)
    assert "was shown images from outside" in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # all that it shows is in it
