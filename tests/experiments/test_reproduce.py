"""The paper's tables as grids, and what they would take."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from drpl.config.compose import PRESETS
from drpl.data.sources import ReadOptions
from drpl.data.synthetic import SIZES, make_synthetic
from drpl.errors import ConfigError
from drpl.experiments import reproduce
from drpl.experiments.grid import Grid
from drpl.experiments.reproduce import list_left_out, plan_table
from drpl.registry import METHODS
from drpl.report.paper import TABLES, read_published
from tests.conftest import Command
from tests.experiments.test_grid import fast, rows_of

Mistake = Callable[..., str]
ASKED = Grid("", Path("out"), ())


def test_every_table_is_its_grid() -> None:
    for table in TABLES:
        grids = plan_table(table, ASKED)
        cells = [
            (grid.data, noise or "none", method)
            for grid in grids
            for noise in grid.noises
            for method in grid.methods
        ]
        figures = [figure for figure in read_published() if figure.table == table]
        wanted = {(f.dataset, f.noise, f.method) for f in figures if f.method in METHODS}
        assert set(cells) == wanted
        assert len(cells) == len(wanted)
        assert {f.method for f in figures} - METHODS.keys() == set(list_left_out(table))
        assert all(preset in PRESETS for grid in grids for preset in grid.presets)
        assert all(grid.data in SIZES for grid in grids)
    assert [grid.goal for grid in plan_table("detection", ASKED)] == ["detect"]
    assert [grid.data for grid in plan_table("oracles", ASKED)] == ["imagenet32", "imagenet64"]
    assert [grid.out.name for grid in plan_table("oracles", ASKED)] == ["imagenet32", "imagenet64"]
    assert [grid.out.name for grid in plan_table("cifar10", ASKED)] == ["out"]


def test_small_grids_have_the_same_noises() -> None:
    small = {
        table: plan_table(table, replace(ASKED, data="digits"), mini=True)[0]
        for table in ("cifar10", "imagenet32", "webvision")
    }
    assert small["cifar10"].noises == plan_table("cifar10", ASKED)[0].noises
    assert small["cifar10"].presets == ["mini"]
    assert small["cifar10"].methods == [*plan_table("cifar10", ASKED)[0].methods, "drpl:literal"]
    assert small["cifar10"].read_options.outside == ()
    assert small["imagenet32"].read_options.outside == ("8", "9")
    assert any(small["webvision"].noises)


@pytest.mark.parametrize("name", SIZES)
def test_stand_ins_have_the_size_of_the_real_sets(name: str) -> None:
    data = make_synthetic(name)
    train, test, classes, side = SIZES[name]
    assert (len(data.train), len(data.test or ()), len(data.train.classes)) == (
        train,
        test,
        classes,
    )
    assert data.train.images.shape == (3, side, side)
    last = data.train.images.load(data.train.labels[-2:] * 0 + train - 1)
    assert last.shape == (2, 3, side, side)


def test_a_dry_run_without_the_files(command: Command) -> None:
    words = ("reproduce", "cifar10", "--dry-run", "--set", "width=2", "--seeds", "1,2,3")
    answer = command(*words)
    assert answer.code == 0, answer.err
    mine = [m for m in plan_table("cifar10", ASKED)[0].methods if m in METHODS]
    assert f"cifar10, preset cifar10: {8 * 3 * len(mine)} cells" in answer.out
    assert "a stand-in of the same size" in answer.out
    assert f"  nonuniform:0.3         {', '.join(mine)}" in answer.out
    head = next(k for k, line in enumerate(answer.out.splitlines()) if "hours a cell" in line)
    *lines, total, _ = (line.split() for line in answer.out.splitlines()[head + 1 :])
    assert [line[:2] for line in lines] == [[method, "24"] for method in mine]
    assert total[:2] == ["all", str(24 * len(mine))]
    hours = sum(float(line[3]) for line in lines)
    assert float(total[2]) == pytest.approx(hours, abs=0.05 * (len(lines) + 1))
    assert hours > 0
    assert not Path("runs").exists()


def test_what_is_missing_is_said(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "did you mean 'cifar10'?" in mistake("reproduce", "cifar1")
    assert "--confusion T.npz" in mistake("reproduce", "imagenet32")
    assert "--data goes with --scale mini" in mistake("reproduce", "cifar10", "--data", "digits")
    monkeypatch.setattr(reproduce, "METHODS", {})
    with pytest.raises(ConfigError, match="none of the methods"):
        plan_table("cifar10", ASKED)
    assert list_left_out("webvision")[0] == "cross_entropy"


def test_a_small_table(command: Command, tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Non-uniform noise learns by itself which classes look alike."""
    some = [
        figure
        for figure in read_published()
        if figure.table == "cifar10"
        and figure.method == "cross_entropy"
        and figure.noise in ("none", "nonuniform:0.3")
    ]
    monkeypatch.setattr(reproduce, "read_published", lambda: some)
    words = ("reproduce", "cifar10", "--scale", "mini", "--data", tiny_file, "--preset", "small")
    answer = command(*words, "--jobs", 1, *fast(1))
    assert answer.code == 0, answer.err
    rows = rows_of(Path("runs/cifar10-mini/table.csv"))
    assert [row["noise"] for row in rows] == ["none", "nonuniform:0.3"]
    assert Path("runs/cifar10-mini/confusion.npz").is_file()
    dry = command(*words, "--dry-run", *fast(1))
    assert "preset small: 2 cells" in dry.out
    assert "stand-in" not in dry.out


def test_without_fashion_the_digits_serve(tmp_path: Path) -> None:
    assert reproduce.find_mini_data(ReadOptions(data_dir=tmp_path)) == "digits"


def test_list_tables(command: Command) -> None:
    said = command("list", "tables").out
    assert all(table in said for table in TABLES)
