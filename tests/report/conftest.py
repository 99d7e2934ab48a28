"""Folders, figures and pages that the reporting tests share: drawing takes seconds."""

from pathlib import Path

import pytest

from drpl.report.figures import draw_all
from drpl.report.load import load_runs
from drpl.report.page import report
from drpl.report.style import Picture
from tests.support.run_folders import Recipe, write_comparison, write_run


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten methods, four noises, one or two seeds."""
    return write_comparison(tmp_path_factory.mktemp("comparison"))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with all that a report can show."""
    return write_run(tmp_path_factory.mktemp("run") / "drpl", Recipe())


@pytest.fixture(scope="session")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without truth, test set and images."""
    recipe = Recipe(noise=None, truth=False, test=False, images=False)
    return write_run(tmp_path_factory.mktemp("blind") / "drpl", recipe)


@pytest.fixture(scope="session")
def pictures(run: Path) -> list[Picture]:
    """All figures of the run."""
    return list(draw_all(load_runs([run])))


@pytest.fixture(scope="session")
def run_page(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the run."""
    return report([run], tmp_path_factory.mktemp("page") / "run.html")


@pytest.fixture(scope="session")
def comparison_page(comparison: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the comparison."""
    return report([comparison], tmp_path_factory.mktemp("page") / "comparison.html")
