"""The paper's grid and the ablations, tiny: what is stopped goes on, tables follow from files."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import ablations, features, missing, paper, paper_tables

from drpl.config.compose import flatten
from drpl.noise.nonuniform import CIFAR10
from drpl.registry import METHODS
from drpl.report.paper import read_published
from drpl.runs.experiment import compose_for

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def run_quick(main: object, folder: Path, cache: Path) -> dict[str, bytes]:
    """Every file of the results but those with times in them."""
    words = ["--quick", "--jobs", "1", "--cache", str(cache), "--out", str(folder / "runs")]
    main([*words, "--results", str(folder / "results")])  # type: ignore[operator]
    timed = ("about.json", "cost.csv")
    files = sorted((folder / "results").iterdir())
    return {path.name: path.read_bytes() for path in files if path.name not in timed}


@pytest.mark.slow
def test_the_grid_is_made_once_and_again_the_same(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_quick(paper.main, tmp_path, shared / "encoders")
    said = capsys.readouterr().out
    assert "without imagenet32-mini: no data set, file or folder is named" in said
    assert "drpl:literal         3 runs of" in said
    cells = pd.read_csv(tmp_path / "results" / "table.csv")
    counts = {"cross_entropy": 6, "drpl": 6, "drpl (literal)": 3, "oracle_ssl": 3}
    assert cells["method"].value_counts().to_dict() == counts
    assert (cells[cells["noise"] != "none"]["auroc"] > 0.5).all()
    runs = tmp_path / "runs" / "digits" / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("result.json")}
    lost = runs / "ood-0.4" / "drpl" / "seed-2" / "result.json"
    lost.unlink()  # as if it had been killed before its end
    assert run_quick(paper.main, tmp_path, shared / "encoders").keys() == found.keys()
    after = {path: path.stat().st_mtime_ns for path in runs.rglob("result.json")}
    assert {path for path in after if after[path] != before[path]} == {lost}
    columns = [name for name in cells if name != "seconds"]
    again = pd.read_csv(tmp_path / "results" / "table.csv")
    pd.testing.assert_frame_equal(again[columns], cells[columns])
    words = ["--finished", "--jobs", "1", "--out", str(tmp_path / "runs")]
    paper.main([*words, "--results", str(tmp_path / "finished")])
    there = pd.read_csv(tmp_path / "finished" / "table.csv")
    by = ["noise", "method", "seed"]
    both = [table.sort_values(by, ignore_index=True) for table in (there, again)]
    pd.testing.assert_frame_equal(*both)


@pytest.mark.slow
def test_a_grid_that_was_killed_three_times_gives_the_same_table(
    shared: Path, tmp_path: Path
) -> None:
    whole = run_quick(paper.main, tmp_path / "whole", shared / "encoders")
    words = [sys.executable, "-m", "benchmarks.paper", "--quick", "--jobs", "1"]
    words += ["--cache", str(shared / "encoders"), "--out", str(tmp_path / "killed" / "runs")]
    words += ["--results", str(tmp_path / "killed" / "results")]
    runs = tmp_path / "killed" / "runs" / "digits" / "runs"
    for finished in (2, 7, 12):  # of the 18 runs that there will be
        process = subprocess.Popen(words, cwd=RESULTS.parents[1], stdout=subprocess.DEVNULL)
        while len([*runs.rglob("result.json")]) < finished:
            assert process.poll() is None, "it came to its end before it could be killed"
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert not (tmp_path / "killed" / "results" / "table.csv").exists()
    killed = run_quick(paper.main, tmp_path / "killed", shared / "encoders")
    tables = [
        pd.read_csv(tmp_path / name / "results" / "table.csv").drop(columns="seconds")
        for name in ("whole", "killed")
    ]
    pd.testing.assert_frame_equal(*tables)
    timed = {"table.csv", "stages.csv", "cost.md"}
    assert {name: killed[name] for name in killed.keys() - timed} == {
        name: whole[name] for name in whole.keys() - timed
    }


@pytest.mark.slow
def test_the_ablations_are_run(shared: Path, tmp_path: Path) -> None:
    found = run_quick(ablations.main, tmp_path, shared / "encoders")
    table = pd.read_csv(tmp_path / "results" / "table.csv")
    for where, mine in table.groupby("where"):
        assert set(mine["change"]) == {*ablations.QUICK, *ablations.STAGES}, where
        by_row = mine[mine["change"] == "NU-OOD by row"]
        assert list(by_row["kind"]) == ["NU-OOD"]
    assert found["summary.md"].decode().count("\n") == 2 + len({*table["change"]})


@pytest.mark.parametrize(("preset", "ours"), [("vectors", ablations.OURS), ("mini", {})])
def test_each_ablation_changes_what_it_names(preset: str, ours: dict[str, object]) -> None:
    def compose(settings: dict[str, object]) -> dict[str, object]:
        return flatten(compose_for("drpl", [preset], {**ours, **settings}).model_dump())

    base = compose({})
    first = {key: value for key, value in ours.items() if key.startswith("relabel")}  # as long
    literal = flatten(compose_for("drpl", [preset, "literal"], first).model_dump())
    assert compose(dict(ablations.ABLATIONS["literal"].settings)) == literal
    same = []
    for name, ablation in ablations.ABLATIONS.items():
        changed = compose(dict(ablation.settings))
        assert {key for key in base if base[key] != changed[key]} <= ablation.settings.keys()
        if changed == base and not ablation.noises:
            same.append(name)
    asked = "second threshold 0.5" if preset == "vectors" else "second threshold 0.1"
    assert same == [ablations.BASE, asked]


def test_four_flips_leave_dogs_alone() -> None:
    matrix = ablations.make_four_flips()
    assert np.allclose(matrix.sum(1), 1)
    moved = [name for name, stays in zip(CIFAR10, matrix.diagonal(), strict=True) if stays < 1]
    assert moved == ["bird", "cat", "deer", "truck"]
    assert matrix[CIFAR10.index("cat"), CIFAR10.index("dog")] == ablations.FLIPS


def test_every_method_and_level_of_the_paper_is_in_the_grid() -> None:
    methods = [name for part in paper.PARTS for name in part.methods]
    assert set(methods) == {*METHODS, "drpl:literal"}
    assert len(methods) == len(set(methods))
    assert paper.TUNED not in {seed for part in paper.PARTS for seed in part.seeds}
    noises = {case.name: set(case.noises) for case in features.CASES}
    for ours, theirs in paper_tables.PUBLISHED.items():
        levels = {f.noise for f in read_published() if f.dataset == theirs}
        assert {noise or "none" for noise in noises[ours]} >= levels - {"none"}


def test_a_lead_that_seeds_share_is_told_from_chance() -> None:
    rows = [
        {"noise": noise, "seed": seed, "method": method, "auroc": value}
        for seed in range(1, 6)
        for noise in ("uniform:0.4", "uniform:0.8")
        for method, value in (("a", 0.9 + 0.01 * seed), ("b", 0.85 + 0.011 * seed))
    ]
    found = paper_tables.compare_pairs(pd.DataFrame(rows), "a", "b", "auroc")
    assert found["lead"] == pytest.approx(0.05 - 0.003)
    assert found["pairs"] == 10
    assert found["p"] < 0.001
    assert found["p_flips"] == pytest.approx(2 / 2**10, rel=0.01)
    signs = pd.DataFrame(rows)
    signs.loc[(signs.method == "a") & (signs.seed % 2 == 0), "auroc"] -= 0.1
    assert paper_tables.compare_pairs(signs, "a", "b", "auroc")["p"] > 0.3


def test_the_papers_figures_stand_below_ours() -> None:
    row = {"dataset": "cifar10", "rate": 0.4, "seed": 1, "auroc": 0.9, "tpr": 0.9, "fpr": 0.1}
    row |= {"accuracy_last": 80.0, "accuracy_best": 81.0, "seconds": 1.0, "images": 1}
    names = ("cross_entropy", "drpl", "drpl (literal)", "oracle_ssl")
    cells = pd.DataFrame(
        [
            {**row, "noise": noise, "method": name, "accuracy_last": 80.0 + place}
            for noise in ("none", "uniform:0.4")
            for place, name in enumerate(names)
        ]
    )
    lines = paper_tables.tabulate_accuracy(cells).splitlines()
    assert "| accuracy (%) | 0 | U 40 |" in lines
    at = lines.index("| `drpl`, last | 81.0 | 81.0 |")
    assert lines[at + 1] == "| *paper*, last | 94.08 | 92.27 |"
    assert "| `drpl (literal)`, last | **82.0** | **82.0** |" in lines  # no oracle is the best
    assert sum("paper" in line for line in lines) == 4


def make_cells(accuracies: Mapping[str, Mapping[str, Sequence[float | None]]]) -> pd.DataFrame:
    """Runs by noise and method, one a seed; where there is no accuracy there is no run."""
    return pd.DataFrame(
        [
            {"dataset": "cifar10", "noise": noise, "method": method, "seed": seed, "auroc": 0.9}
            | {"accuracy_last": value, "accuracy_best": value}
            for noise, methods in accuracies.items()
            for method, values in methods.items()
            for seed, value in enumerate(values, 1)
            if value is not None
        ]
    )


LACKING: dict[
    str, dict[str, list[float | None]]
] = {  # what is left of `drpl (literal)` is the best; gce has fewer seeds, and meant to
    "uniform:0.4": {
        "drpl": [80.0, 80.5, 81.5],
        "mixup": [79.0, 79.1, 79.6],
        "gce": [70.0, 70.0],
        "drpl (literal)": [90.0, None, 90.0],
        "oracle_ssl (fast)": [99.0, 99.0],
    },
    "uniform:0.8": {
        "drpl": [60.0, 60.5, 61.5],
        "mixup": [59.0, 59.1, 59.6],
        "gce": [50.0, 50.0],
        "drpl (literal)": [None, None, None],
        "oracle_ssl (fast)": [99.0, 99.0],
    },
}


def test_a_method_that_lacks_runs_is_shown_and_not_ranked() -> None:
    cells = make_cells(LACKING)
    lines = paper_tables.tabulate_accuracy(cells).splitlines()
    [mine] = [line for line in lines if line.startswith("| `drpl (literal)`, last")]
    assert mine == "| `drpl (literal)`, last | – | 90.0 ± 0.0 (1 missing) | – (3 missing) |"
    assert "| `drpl`, last | – | **80.7 ± 0.8** | **60.7 ± 0.8** |" in lines
    assert "| `gce`, last | – | 70.0 ± 0.0 | 50.0 ± 0.0 |" in lines
    found = paper_tables.find_firsts(cells).set_index("figure").loc["accuracy_last"]
    assert (found["first"], found["second"], found["of"]) == ("drpl", "mixup", 3)
    assert found["missing"] == "drpl (literal): 4"


def test_a_seed_that_failed_everywhere_is_missing() -> None:
    cells = make_cells({"uniform:0.4": {"a": [1.0, 1, 1], "b": [1.0, 1, 1], "c": [1.0, None, 1]}})
    assert missing.plan_seeds(cells)["c"] == [1, 2, 3]
    assert missing.count_missing(missing.add_missing(cells), "accuracy_last") == {"c": 1}


def test_a_detector_that_was_not_tried_everywhere_is_not_the_best() -> None:
    cells = make_cells(
        {noise: {"cross_entropy": [50.0]} for noise in ("uniform:0.2", "uniform:0.8")}
    )
    rows = [
        ("uniform:0.2", "small_loss", 0.9),
        ("uniform:0.8", "small_loss", 0.6),
        ("uniform:0.2", "new", 0.8),
    ]
    found = pd.DataFrame(rows, columns=["noise", "detector", "auroc"])
    found = found.assign(dataset="cifar10", method="cross_entropy", stage="train")
    lines = paper_tables.tabulate_detectors(cells, found).splitlines()
    assert lines[2:] == [
        "| `small_loss` after `cross_entropy`, train | **0.750** |",
        "| `new` after `cross_entropy`, train | 0.800 (1 missing) |",
    ]


@pytest.mark.parametrize("name", ["accuracy", "detection", "detectors", "significance", "cost"])
def test_the_kept_tables_follow_from_the_kept_runs(name: str) -> None:
    folder = RESULTS / "paper"
    if not (folder / "table.csv").exists():
        pytest.skip("make paper was not run yet")
    cells, detectors = (pd.read_csv(folder / f"{one}.csv") for one in ("table", "detectors"))
    assert paper_tables.make_all(cells, detectors)[name] == (folder / f"{name}.md").read_text()


def test_the_kept_ablations_follow_from_the_kept_runs() -> None:
    folder = RESULTS / "ablations"
    if not folder.exists():
        pytest.skip("make ablations was not run yet")
    assert ablations.summarize(pd.read_csv(folder / "table.csv")) == (
        folder / "summary.md"
    ).read_text("utf-8")


def test_rows_of_another_call_stay_in_their_places() -> None:
    def list_rows(*methods: str, auroc: float) -> pd.DataFrame:
        rows = [("cifar10", "uniform:0.8", method, auroc) for method in methods]
        return pd.DataFrame(rows, columns=["dataset", "noise", "method", "auroc"])

    before = list_rows("cross_entropy", "drpl", "drpl (literal)", "sop", auroc=0.5)
    found = paper.keep_others(before, list_rows("sop", "drpl", auroc=0.9))
    assert list(found["method"]) == ["cross_entropy", "drpl", "drpl (literal)", "sop"]
    assert list(found["auroc"]) == [0.5, 0.9, 0.5, 0.9]


def test_methods_can_be_chosen() -> None:
    (part,) = paper.choose_methods(paper.PARTS, ["elr", "sop"])
    assert part.methods == ("elr", "sop")
    assert tuple(part.seeds) == paper.FEWER
