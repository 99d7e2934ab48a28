"""Folders that the reporting tests share."""

from pathlib import Path

import pytest

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
