"""The paper's tables as grids, and what they would take."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drpl.analysis.scoring import score
from drpl.config.compose import PRESETS
from drpl.data.sources import ReadOptions
from drpl.data.synthetic import SIZES, make_synthetic
from drpl.errors import ConfigError
from drpl.experiments import reproduce
from drpl.experiments.grid import Grid
from drpl.experiments.reproduce import list_left_out, plan_table
from drpl.methods.drpl import Config
from drpl.noise.confusion import Confusion
from drpl.registry import METHODS
from drpl.report.paper import TABLES, read_published
from drpl.runs.dry_run import Plan, StagePlan
from drpl.runs.experiment import Experiment, compose_for
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
        judges = {"two_stage": "cross_entropy"}  # a detector, and whose runs it judges
        runs = [(f.dataset, f.noise, judges.get(f.method, f.method)) for f in figures]
        wanted = {run for run in runs if run[2] in METHODS}
        assert set(cells) == wanted
        assert len(cells) == len(wanted)
        assert list_left_out(table) == []
        assert all(preset in PRESETS for grid in grids for preset in grid.presets)
        assert all(grid.data in SIZES for grid in grids)
    (detection,) = plan_table("detection", ASKED)
    assert (detection.goal, detection.agreement) == ("detect", True)
    assert list(detection.methods) == ["cross_entropy", "nlnl", "drpl"]
    assert detection.presets == ["imagenet32", "figure1"]
    assert not any(grid.agreement for grid in plan_table("cifar10", ASKED))
    (google,) = plan_table("webvision-google", ASKED)
    assert (google.data, google.read_options.size) == ("webvision:google", 342)
    assert google.presets == ["webvision", "inception"]
    config = compose_for("drpl", google.presets, {})
    assert isinstance(config, Config)
    assert (config.network, config.final_schedule.epochs) == ("inception_resnet_v2", 200)
    assert round(config.crop * 342) == 299
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


@pytest.mark.slow
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


def test_a_dry_run_names_the_confusion_matrix_and_its_cost(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def dry_run(experiment: Experiment, *_: object) -> Plan:
        asked.append((experiment.method.name, experiment.config.schedule.epochs))  # type: ignore[attr-defined]
        return Plan([StagePlan("train", 1, 1, 1, 3600.0)], 0)

    some = [f for f in read_published() if f.table == "detection" and f.method == "two_stage"]
    monkeypatch.setattr(reproduce, "read_published", lambda: some)
    monkeypatch.setattr(reproduce, "dry_run", dry_run)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    words = ("reproduce", "detection", "--dry-run", "--device", "cpu")
    lines = command(*words).out.splitlines()
    assert asked == [("cross_entropy", 40), ("cross_entropy", 120)]  # Figure 1's, and a whole one
    (cost,) = [line.split() for line in lines if line.startswith("  confusion")]
    # Of 1,154,000 images of other classes each network is shown one half.
    hours = (127_000 + 1_154_000 // 2) / 127_000
    assert cost == ["confusion", "2", f"{hours:.3f}", f"{2 * hours:.1f}"]
    (told,) = [line for line in lines if "ConfMatrix.npy" in line]
    assert "`drpl confusion imagenet32`" in told
    (total,) = [line.split() for line in lines if line.startswith("all ")]
    assert float(total[2]) == pytest.approx(14 + 2 * hours, abs=0.06)
    Confusion(torch.eye(2), ("a", "b")).write(tmp_path / "T.npz")
    assert "ConfMatrix" not in command(*words, "--confusion", "T.npz").out


def test_the_papers_detector_has_its_row(
    command: Command, tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [
        replace(figure, dataset="tiny")
        for figure in read_published()
        if figure.table == "detection" and figure.noise == "uniform:0.4"
        if figure.method == "two_stage"
    ]
    monkeypatch.setattr(reproduce, "read_published", lambda: some)
    monkeypatch.setattr("drpl.report.paper.read_published", lambda: some)
    words = ("reproduce", "detection", "--scale", "mini", "--data", tiny_file, "--preset", "small")
    answer = command(*words, "--jobs", 1, *fast(2))
    assert answer.code == 0, answer.err
    plain, judged = rows_of(Path("runs/detection-mini/table.csv"))
    assert [plain["method"], judged["method"]] == ["cross_entropy", "two_stage"]
    folder = Path("runs/detection-mini/runs/uniform-0.4/cross_entropy/seed-1")
    (found,) = score(folder, ["two_stage"]).to_dict("records")
    for key in ("auroc", "tpr", "fpr"):
        assert float(judged[key]) == pytest.approx(found[key], rel=1e-5)
    assert judged["accuracy_last"] == ""
    (line,) = [line for line in answer.out.splitlines() if line.startswith("| `two_stage`")]
    assert "| 0.14 | 0.06 |" in line  # the paper's
    assert "two_stage (TS)" in Path("runs/detection-mini/roc-uniform-0.4.svg").read_text()


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
