"""What is read from run folders, also from those of older versions."""

from pathlib import Path

import pytest

from drpl.errors import RunError
from drpl.report.load import infer_epochs, load_runs, read_document
from drpl.report.page import report
from drpl.runs.folder import Result
from tests.support.run_folders import Recipe, write_run


def test_when_losses_were_observed_is_found_also_for_older_runs(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Recipe(epochs=10, every=4))
    (result,) = load_runs([folder])
    assert infer_epochs(result, "relabel", 3).tolist() == [4, 8, 10]
    (folder / "provenance.json").write_text("{}")
    assert infer_epochs(result, "relabel", 3).tolist() == [4, 8, 10]
    assert infer_epochs(result, "relabel", 7).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_results_so_far(run: Path) -> None:
    assert Result.load_partial(run).finished
    assert Result.load_partial(run) == Result.load(run)


def test_every_run_is_loaded_once(run: Path, comparison: Path) -> None:
    place = comparison / "runs" / "uniform-0.4" / "drpl"
    result = Result.load(run)
    runs = load_runs([result, run, place, place / "seed-1"])
    assert [one.folder for one in runs] == [run, place / "seed-1", place / "seed-2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("provenance.json", '{"a"'), ("provenance.json", "[1]"), ("config.toml", "a = ")],
)
def test_documents_that_are_damaged_or_missing(
    run: Path, tmp_path: Path, name: str, text: str
) -> None:
    result = Result(tmp_path, Result.load(run).summary)
    assert read_document(result, name) == {}
    (tmp_path / name).write_text(text)
    with pytest.raises(RunError, match=f"{name} is damaged"):
        read_document(result, name)


@pytest.mark.parametrize("place", [0, 58])
def test_settings_that_are_no_text(tmp_path: Path, place: int) -> None:
    run = write_run(tmp_path / "run", Recipe())
    content = bytearray((run / "config.toml").read_bytes())
    content[place] = 0xFF
    (run / "config.toml").write_bytes(content)
    with pytest.raises(RunError, match=r"config\.toml is damaged"):
        report([run], tmp_path / "page.html")


@pytest.mark.parametrize(("old", "new"), [('"mixture"', '"mixtuse"'), ('"alpha"', '"alqha"')])
def test_a_split_whose_mixture_is_damaged(tmp_path: Path, old: str, new: str) -> None:
    run = write_run(tmp_path / "run", Recipe())
    path = run / "result.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RunError, match=r"result\.json is damaged: stages\.0\.mixture"):
        Result.load(run)
