"""The comparison grid: its files, its failures, and that nothing stops it for good."""

import csv
import functools
import io
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from filelock import FileLock

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.experiments import executors as engines
from drpl.experiments import grid
from drpl.experiments.study import study
from drpl.runs.execute import execute
from drpl.runs.experiment import Execution, Experiment
from drpl.runs.folder import Result
from tests.conftest import Command

pytestmark = pytest.mark.usefixtures("undrawn")

SHORT = ("--set", "width=4", "--set", "flip=false", "--set", "schedule.batch_size=16")
COLUMNS = "dataset,noise,rate,method,seed,accuracy_last,accuracy_best,auroc,tpr,fpr,seconds,images"
with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
Mistake = Callable[..., str]


def settings(epochs: int) -> dict[str, Any]:
    """For cross-entropy and mixup."""
    return {"width": 4, "schedule.epochs": epochs, "schedule.lr": [[1, 0.05]]}


def fast(epochs: int = 2) -> list[str]:
    texts = [f"{key}={value}" for key, value in settings(epochs).items()]
    return [*SHORT, *(word for text in texts for word in ("--set", text))]


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_a_grid_and_its_files(command: Command, tiny_file: Path) -> None:
    methods = ("--methods", "cross_entropy,mixup", "--seeds", "1,2")
    noises = ("--noise", "uniform:0.25", "--noise", "uniform:0.5")
    words = ("compare", tiny_file, *methods, *noises, "-o", "g", "--jobs", 1, *fast())
    answer = command(*words)
    assert answer.code == 0, answer.err
    assert "8 of 8: mixup, uniform:0.5, seed 2: accuracy" in answer.err
    assert "left" in answer.err
    assert Path("g/table.csv").read_text().splitlines()[0] == COLUMNS
    rows = rows_of(Path("g/table.csv"))
    cells = [(row["noise"], row["rate"], row["method"], row["seed"]) for row in rows]
    assert cells == [
        (f"uniform:{rate}", rate, method, seed)
        for rate in ("0.25", "0.5")
        for method in ("cross_entropy", "mixup")
        for seed in ("1", "2")
    ]
    for row in rows:
        case = f"uniform-{row['rate']}"
        run = Result.load(Path("g/runs") / case / row["method"] / f"seed-{row['seed']}")
        assert float(row["accuracy_last"]) == pytest.approx(run.accuracy["last"], rel=1e-5)
        assert float(row["auroc"]) == pytest.approx((run.detection or {})["auroc"], rel=1e-5)
        assert int(row["images"]) == run.summary["images"] == 2 * 72
    stages = rows_of(Path("g/stages.csv"))
    assert [row["stage"] for row in stages] == ["train"] * 8
    assert [row["auroc"] for row in stages] == [row["auroc"] for row in rows]
    for case in ("uniform-0.25", "uniform-0.5"):
        assert Path(f"g/roc-{case}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in Path(f"g/roc-{case}.svg").read_text()
        assert f"roc-{case}.png" in Path("g/table.md").read_text()

    before = {path: path.read_bytes() for path in Path("g").rglob("*") if path.is_file()}
    again = command(*words)  # everything is there already
    assert again.code == 0
    assert {path: path.read_bytes() for path in Path("g").rglob("*") if path.is_file()} == before


def test_failures_do_not_stop_the_others(
    command: Command, tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moody(experiment: Experiment, execution: Execution) -> Result:
        what = experiment.method.name, experiment.seed, experiment.manifest["spec"]
        if what == ("mixup", 2, "uniform:0.5"):
            raise ZeroDivisionError("once too often")
        return execute(experiment, execution)

    monkeypatch.setattr(grid, "execute", moody)
    methods = ("--methods", "cross_entropy,mixup", "--seeds", "1,2")
    noises = ("--noise", "uniform:0.5", "--noise", "ood:0.2")
    words = ("compare", tiny_file, *methods, *noises, "-o", "g", "--jobs", 1, *fast(1))
    answer = command(*words)
    assert answer.code == 1
    assert len(rows_of(Path("g/table.csv"))) == 3
    text = Path("g/table.md").read_text()
    assert "## 5 failed" in text
    assert "- mixup, uniform:0.5, seed 2: ZeroDivisionError: once too often (see " in text
    assert "; mixup, ood:0.2, seed 2: out-of-distribution noise needs images" in text
    assert text.count("out-of-distribution noise") == 1  # one reason, four cells
    assert "5 cells failed" in answer.err
    trace = Path("g/runs/uniform-0.5/mixup/seed-2/error.txt").read_text()
    assert "ZeroDivisionError: once too often" in trace

    monkeypatch.setattr(grid, "execute", execute)
    answer = command(*words)  # what failed is tried again
    assert answer.code == 1
    assert len(rows_of(Path("g/table.csv"))) == 4
    assert not Path("g/runs/uniform-0.5/mixup/seed-2/error.txt").exists()
    assert "## 4 failed" in Path("g/table.md").read_text()


def test_a_grid_of_which_nothing_came(command: Command) -> None:
    words = ("--methods", "mixup", "-o", "g", "--jobs", 1)
    answer = command("compare", "nothing.npz", *words)
    assert answer.code == 2
    assert "there is no file or folder nothing.npz" in answer.err
    assert not Path("g").exists()
    answer = command("compare", "digits", "--limit", 40, "--noise", "ood:0.3", *words)
    assert answer.code == 1
    assert "out-of-distribution noise needs images" in answer.out
    assert Path("g/table.csv").read_text().strip() == COLUMNS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "mixup,drlp"], "unknown method 'drlp'; did you mean 'drpl'?"),
        (["--methods", "mixup", "--noise", "uniformly:0.2"], "did you mean 'uniform'?"),
        (["--methods", "mixup", "--seeds", "1,two"], "write whole numbers, for example 1,2,3"),
        (["--methods", ","], "at least one method"),
        (["--methods", "mixup", "--preset", "cifar"], "did you mean 'cifar10'?"),
        (
            ["--methods", "mixup,drpl", "--set", "schedule.epochs=3"],
            "drpl: settings: unknown key 'schedule'",
        ),
    ],
)
def test_wrong_words(mistake: Mistake, words: list[str], sentence: str) -> None:
    assert sentence in mistake("compare", "digits", "-o", "g", *words)
    assert not Path("g").exists()


def test_settings_and_presets_of_one_method() -> None:
    presets = ["small", "drpl:mini", "a:b.toml"]
    assert grid.presets_for("mixup", presets) == ["small", "a:b.toml"]
    assert grid.presets_for("drpl", presets) == ["small", "mini", "a:b.toml"]
    settings = {"width": 4, "relabel": {"begin": 1, "window": 3}, "drpl:relabel.begin": 2}
    assert grid.settings_for("mixup", settings) == {"width": 4, "relabel": settings["relabel"]}
    relabel = {"begin": 2, "window": 3}
    assert grid.settings_for("drpl", settings) == {"width": 4, "relabel": relabel}


def test_an_overlay_makes_a_row_of_its_own(tiny: DatasetSplits, tmp_path: Path) -> None:
    stages = ("relabel", "warmup", "detect", "final")
    brief: dict[str, Any] = {
        f"{stage}_schedule": {"epochs": 2, "lr": [[1, 0.05]], "batch_size": 16} for stage in stages
    }
    found = drpl.compare(
        replace(tiny, name="cifar10"),  # so that the paper has figures for it
        methods=["drpl", "drpl:literal"],
        noises=["uniform:0.4"],
        out=tmp_path,
        preset="mini",
        settings={"width": 4, "flip": False, "drpl:relabel.begin": 1, **brief},
        jobs=1,
        quiet=True,
    )
    assert not found.failures
    assert list(found.table["method"]) == ["drpl", "drpl (literal)"]
    runs = [run.folder.relative_to(tmp_path / "runs").as_posix() for run in found.results]
    assert runs == ["uniform-0.4/drpl/seed-1", "uniform-0.4/drpl-literal/seed-1"]
    ours, literal = (
        tomllib.loads((run.folder / "config.toml").read_text()) for run in found.results
    )
    assert (ours["run"]["preset"], literal["run"]["preset"]) == ("mini", "mini, literal")
    assert ours["settings"].pop("pool")
    assert not literal["settings"].pop("pool")
    changed = {"second_threshold": 0.5, "min_labelled": 0.0}
    assert literal["settings"] == ours["settings"] | changed
    ends = [line.split("|")[3:7] for line in found.text.splitlines() if line.startswith("| `drpl")]
    assert len(ends) == 2
    assert ends[0][2:] == ends[1][2:] == [" 92.27 ", " 92.92 "]  # the paper's, beside both
    with pytest.raises(drpl.DrplError, match=r"unknown overlay 'litral'; did you mean 'literal'\?"):
        drpl.compare(tiny, methods=["drpl:litral"], out=tmp_path / "other")


def test_an_overlay_alone_lies_over_what_suits_the_data() -> None:
    draws = np.random.default_rng(1)
    data = drpl.arrays(draws.normal(size=(90, 40)), np.arange(90) % 3, name="vectors")
    usual, literal = (Experiment.build(data, preset=preset) for preset in (None, "literal"))
    assert literal.presets == ("vectors", "literal")
    changed = {"second_threshold": 0.5, "min_labelled": 0.0, "pool": False}
    assert literal.config == usual.config.model_copy(update=changed)
    assert literal.config != usual.config
    plain = Experiment.build(data, preset=["vectors", "literal"])  # nothing follows from the data
    assert plain.config != literal.config
    assert plain.presets == literal.presets


def test_every_argument_reaches_the_grid(tiny_file: Path, tiny: DatasetSplits) -> None:
    known = {one.name for kind in (grid.Grid, Execution) for one in fields(kind)} | {"preset"}
    assert signature(grid.compare).parameters.keys() <= known
    assert signature(study).parameters.keys() <= known | {"target", "probe_images"}
    usual = {name: one.default for name, one in signature(grid.compare).parameters.items()}
    given = {"data": str(tiny_file), "methods": ["mixup"], "out": "g", "preset": "small"}
    more = {"ood": tiny.train, "read_options": ReadOptions(limit=30), "quiet": True}
    made = grid.make_grid(usual | given | more)
    assert (made.out, made.methods, made.presets) == (Path("g"), ("mixup",), ("small",))
    assert made.execution == Execution(quiet=True)
    data = made.load_data()
    assert len(data.train) == 30
    assert data.outside is not None


def test_from_python_with_data_in_memory(tiny: DatasetSplits, tmp_path: Path) -> None:
    chosen = settings(1)
    found = drpl.compare(
        tiny, methods=["mixup"], out=tmp_path / "g", settings=chosen, jobs=1, quiet=True
    )
    assert list(found.table["noise"]) == ["none"]
    assert list(found.table["rate"]) == [0.0]
    assert not found.failures
    assert (tmp_path / "g" / "runs" / "none" / "mixup" / "seed-1" / "result.json").is_file()
    assert not list((tmp_path / "g").glob("roc-*"))  # nobody knows which labels are wrong
    assert "## tiny, no noise added" in found.text


def test_each_worker_has_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    devices = []
    for name in ("MainProcess", "LokyProcess-1", "LokyProcess-2", "LokyProcess-3"):
        monkeypatch.setattr(grid, "current_process", lambda name=name: SimpleNamespace(name=name))
        devices.append(grid._own_gpu())
    assert devices == ["cuda:0", "cuda:0", "cuda:1", "cuda:0"]
    assert grid._usual_jobs(None) == 2
    assert grid._usual_jobs("cuda:1") == 1
    assert grid._usual_jobs("cpu") >= 1
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert grid._own_gpu() is None


def fatal(number: int) -> int:
    """The process of task 2 dies."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_worker_that_dies_takes_no_one_along() -> None:
    answers = list(engines.local(fatal, [0, 1, 2, 3], 2, 1))
    assert 2 not in answers


def test_lost_cells_are_named(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(work: object, tasks: list[grid.Cell], *_: int) -> Iterator[grid.CellResult]:
        yield grid._attempt(work.args[0], tasks[0])  # type: ignore[attr-defined]

    monkeypatch.setitem(engines.ENGINES, "local", losing)
    out, chosen = tiny_file.parent / "g", settings(1)
    found = drpl.compare(
        str(tiny_file), methods=["mixup"], seeds=[1, 2], out=out, settings=chosen, quiet=True
    )
    assert [cell.seed for cell in found.failures] == [2]
    assert "run the same command again" in found.text


def test_two_grids_do_not_train_the_same_cell_at_once(tiny_file: Path) -> None:
    """A worker that outlived its killed grid is waited for."""
    out = tiny_file.parent / "g"
    folder = out / grid.Cell(None, "mixup", 1).folder
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock") as other, ThreadPoolExecutor(1) as pool:
        chosen = {"settings": settings(1), "jobs": 1, "quiet": True}
        compare = functools.partial(drpl.compare, str(tiny_file), methods=["mixup"], out=out)
        waiting = pool.submit(compare, **chosen)
        time.sleep(1)
        assert not (folder / "config.toml").exists()
        other.release()
        assert not waiting.result(timeout=120).failures


def test_ray_that_is_not_there(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ("compare", "digits", "--methods", "mixup", "-o", "g", "--engine", "ray")
    assert "pip install 'drpl[ray]'" in mistake(*words)


def grid_words(data: Path, out: Path, cells: int, *more: object) -> list[str]:
    """Two methods, and so many cells, in two processes."""
    words = [sys.executable, "-m", "drpl", "compare", data, "-o", out, "--quiet", "--jobs", 2]
    words += ["--methods", "cross_entropy,mixup", "--save-every", 0, *fast(12), *more]
    noises = ["--noise", "uniform:0.4", "--noise", "uniform:0.2"]
    seeds = ",".join(str(n) for n in range(1, cells // 4 + 1))
    return [str(word) for word in (*words, *noises, "--seeds", seeds)]


def start(words: list[str]) -> "subprocess.Popen[bytes]":
    """A command with a process group of its own, and Ctrl-C as at a terminal."""
    listening = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        words,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # with more, the last digits may differ
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=listening,
    )


def epochs_in(out: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in out.rglob("history.jsonl"))


def wait_for_epochs(running: "subprocess.Popen[bytes]", out: Path, more: int) -> None:
    wanted = epochs_in(out) + more
    while running.poll() is None and epochs_in(out) < wanted:
        time.sleep(0.02)


def without_seconds(out: Path) -> pd.DataFrame:
    table = pd.read_csv(out / "table.csv")
    return table.drop(columns="seconds")


def kill(data: Path, out: Path, cells: int, draws: random.Random) -> None:
    """Start a grid, or go on with it, and kill its whole process group at a random moment."""
    running = start(grid_words(data, out, cells))
    wait_for_epochs(running, out, draws.choice([1, 4, 8]))
    time.sleep(draws.uniform(0.0, 0.4))
    assert running.poll() is None, running.communicate()[0]
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


def whole_grid(data: Path, out: Path, cells: int, *more: object) -> pd.DataFrame:
    """Its table at the end, without the seconds."""
    said, _ = (running := start(grid_words(data, out, cells, *more))).communicate()
    assert running.returncode == 0, said
    return without_seconds(out)


def check_same(found: Path, wanted: Path) -> None:
    tables = without_seconds(found), without_seconds(wanted)
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    for name in ("stages.csv", "roc-uniform-0.4.svg"):
        assert (found / name).read_bytes() == (wanted / name).read_bytes()


@pytest.mark.slow
def test_a_killed_grid_is_continued(command: Command, tiny_file: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kill(tiny_file, killed, 4, random.Random(3))
    assert not (killed / "table.csv").exists()
    for out in (whole, killed):  # one process instead of two changes nothing
        words = grid_words(tiny_file, out, 4)[3:]
        assert command(*words, "--jobs", 1).code == 0
    assert len(without_seconds(whole)) == 4
    check_same(killed, whole)


@pytest.mark.slow
def test_five_kills_leave_no_trace_in_the_table(tiny_file: Path, tmp_path: Path) -> None:
    draws = random.Random(5)
    for _ in range(5):
        kill(tiny_file, tmp_path / "killed", 12, draws)
    whole_grid(tiny_file, tmp_path / "killed", 12)
    assert len(whole_grid(tiny_file, tmp_path / "whole", 12)) == 12
    check_same(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tiny_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "g"
    running = start([*grid_words(tiny_file, out, 4), "--set", "schedule.epochs=2000"])
    wait_for_epochs(running, out, 3)
    os.killpg(running.pid, signal.SIGINT)
    said = running.communicate(timeout=60)[0].decode()
    assert running.returncode == 130, said
    assert "go on with:\n  drpl compare" in said
    assert "Traceback" not in said


@with_ray
@pytest.mark.slow
def test_ray_gives_the_same_numbers(tiny_file: Path, tmp_path: Path) -> None:
    whole = whole_grid(tiny_file, tmp_path / "local", 4)
    found = whole_grid(tiny_file, tmp_path / "ray", 4, "--engine", "ray")
    pd.testing.assert_frame_equal(found, whole, check_exact=True)


@with_ray
@pytest.mark.slow
def test_ray_completes_the_cell_of_a_killed_worker(tiny_file: Path, tmp_path: Path) -> None:
    whole = whole_grid(tiny_file, tmp_path / "local", 4)
    out = tmp_path / "ray"
    running = start(grid_words(tiny_file, out, 4, "--engine", "ray"))
    wait_for_epochs(running, out, 5)
    workers = ray_workers(running.pid)
    assert len(workers) == 2, workers
    os.kill(workers[0], signal.SIGKILL)
    said = running.communicate(timeout=1800)[0].decode()
    assert running.returncode == 0, said
    pd.testing.assert_frame_equal(without_seconds(out), whole, check_exact=True)


def ray_workers(ancestor: int) -> list[int]:
    """The processes below this one that are at a cell."""
    parents, busy = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::there"):
                busy.append(int(path.name))
        except OSError:  # it has just ended
            continue

    def below(pid: int) -> bool:
        return pid == ancestor or (pid in parents and below(parents[pid]))

    return [pid for pid in busy if below(pid)]
