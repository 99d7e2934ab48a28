"""The study: what its folder holds, that it is made of the runs, and that nothing is done twice."""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import drpl
from drpl.analysis.cam import find_memorised
from drpl.analysis.probe import prepare_task, probe
from drpl.analysis.scoring import score
from drpl.data.dataset import DatasetSplits, in_memory
from drpl.data.readers.arrays import arrays
from drpl.experiments import grid
from drpl.experiments import study as studying
from drpl.experiments.study import Study, _look, study
from drpl.files import write_arrays, write_atomic
from drpl.registry import METHODS as KNOWN
from drpl.report.page import Section
from drpl.report.style import Picture
from drpl.runs.folder import Result
from drpl.runs.run import Run
from tests.analysis.test_probe import target
from tests.conftest import Command
from tests.support.tiny import as_options, shortened, tiny_data

NOISE = "uniform:0.2+ood:0.1"
METHODS = ("cross_entropy", "drpl")


def settings(epochs: int = 2) -> dict[str, Any]:
    """Short trainings of both methods."""
    found: dict[str, Any] = {"width": 4, "flip": False}
    for method in METHODS:
        short = shortened(KNOWN[method].load().Config, epochs)
        found |= {f"{method}:{name}": value for name, value in short.items()}
    return found


SHORT: dict[str, Any] = {
    "methods": METHODS,
    "settings": settings(),
    "jobs": 1,
    "quiet": True,
    "track_every": 1,
}
BARE = SHORT | {"methods": METHODS[:1]}


def with_corners() -> DatasetSplits:
    """The tiny problem, with images of four other classes outside."""
    return replace(tiny_data(), outside=target().train)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that are trained from now on."""
    names: list[str] = []
    fit = Run.fit

    @functools.wraps(fit)
    def counted(self: Run, name: str, *rest: Any, **more: Any) -> Any:
        names.append(name)
        return fit(self, name, *rest, **more)

    monkeypatch.setattr(Run, "fit", counted)
    return names


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is drawn from now on, without the time that drawing takes."""
    names: list[str] = []

    def figures(runs: Sequence[Result], folder: Path) -> list[Path]:
        names.append("figures")
        write_atomic(folder / f"{len(runs)}.svg", "drawn")
        return [folder / f"{len(runs)}.svg"]

    def report(runs: Sequence[Result], out: Path, *, sections: Sequence[Section]) -> Path:
        names.append("report")
        write_atomic(out, "\n".join(f"{one.title}: {one.html}" for one in sections))
        return out

    monkeypatch.setattr(Picture, "render_png", lambda _: b"\x89PNG")
    monkeypatch.setattr(Picture, "render_svg", lambda _, *, alone=False: f"<svg>{alone}</svg>")
    monkeypatch.setattr(studying, "figures", figures)
    monkeypatch.setattr(studying, "report", report)
    return names


def dates(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A whole one; but the pictures are drawn once, not again as PNG."""
    out = tmp_path_factory.mktemp("study") / "s"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "render_png", lambda _: b"\x89PNG")
        return study(with_corners(), noises=[NOISE], out=out, **SHORT)


def test_the_folder(made: Study) -> None:
    out, case = made.folder, "tiny-uniform-0.2+ood-0.1"
    assert not made.comparison.failures
    for name in ("table.csv", "table.md", "stages.csv"):
        assert (out / name).stat().st_size > 100
    for ending in ("svg", "png"):
        for kind in ("accuracy", "training", "roc", "losses"):
            assert (out / "figures" / f"{case}-{kind}.{ending}").exists()
        for kind in ("histogram", "posterior", "detectors", "transition", "flow"):
            assert (out / "figures" / f"drpl-{case}-seed-1-{kind}.{ending}").exists()
    probes = pd.read_csv(out / "probes" / "probes.csv", keep_default_na=False)
    assert probes.method.tolist() == ["cross_entropy"] * 4 + ["drpl"] * 4 + ["untrained"] * 4
    assert "4 classes of tiny, outside" in (out / "probes" / "probes.svg").read_text()
    page = (out / "report.html").read_text()
    for head in ("How well losses separate", "What networks know of other classes"):
        assert head in page
    (note,) = [one for one in made.notes if "drpl/seed-1 was shown images from outside" in one]
    assert note in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # all that it shows is in it


def test_separation_and_detectors_are_what_the_folders_say(made: Study) -> None:
    (row,) = pd.read_csv(made.folder / "separation.csv").to_dict("records")
    assert [row[key] for key in ("dataset", "noise", "rate", "seed")] == ["tiny", NOISE, 0.3, 1]
    runs = {run.summary["method"]: run for run in made.comparison.results}
    losses = {
        "cross_entropy": ("cross_entropy", "train"),
        "drpl_stage_1": ("drpl", "relabel"),
        "drpl_stage_2": ("drpl", "detect"),
    }
    for column, (method, stage) in losses.items():
        stages = {one["stage"]: one["detection"] for one in runs[method].summary["stages"]}
        assert row[column] == pytest.approx(stages[stage]["auroc"], rel=1e-5)
    assert set(row) == {"dataset", "noise", "rate", "seed", *losses}
    assert made.separation.loc[0, "drpl_stage_2"] == pytest.approx(row["drpl_stage_2"], rel=1e-5)

    table = pd.read_csv(made.folder / "detectors.csv", keep_default_na=False)
    for method, run in runs.items():
        mine = table[table.method == method]
        expected = score(run.folder)
        assert mine.detector.tolist() == expected.detector.tolist()
        found = pd.to_numeric(mine.auroc, errors="coerce")
        assert found.tolist() == pytest.approx(expected.auroc.tolist(), rel=1e-5, nan_ok=True)


def test_a_second_call_does_nothing(
    made: Study, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Picture, "render_png", lambda _: b"\x89PNG")  # as in the first one
    before = dates(made.folder)
    again = study(with_corners(), noises=[NOISE], out=made.folder, **SHORT)
    assert trainings == []
    assert dates(made.folder) == before
    assert again.notes == made.notes


def test_only_what_is_missing_is_made(
    tmp_path: Path, trainings: list[str], drawings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"noises": ["uniform:0.3"], "out": tmp_path, **BARE}

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(studying, "probe", killed)
        with pytest.raises(KeyboardInterrupt):
            study(with_corners(), **arguments)
    assert (trainings, drawings) == (["train"], ["figures"])
    study(with_corners(), **arguments)  # goes on after the figures
    assert (trainings, drawings) == (["train"], ["figures", "report"])
    assert (tmp_path / "probes" / "probes.csv").exists()

    (tmp_path / "figures" / "1.svg").unlink()
    study(with_corners(), **arguments)
    assert (trainings, drawings[2:]) == (["train"], ["figures"])

    before = dates(tmp_path / "runs" / "uniform-0.3")
    parts = json.loads((tmp_path / "study.json").read_text())
    study(with_corners(), **arguments | {"noises": ["uniform:0.3", "uniform:0.5"]})
    assert trainings == ["train"] * 2
    assert drawings[3:] == ["figures", "report"]  # those of the new noise
    after = dates(tmp_path / "runs" / "uniform-0.3")
    assert {name for name in after if after[name] != before[name]} == {
        "cross_entropy/seed-1/scores.csv"
    }
    for damaged in (
        "{",
        "[1]",
        '{"probes": 3}',
        '{"probes": {"of": "x"}}',
        '{"probes": {"of": 1}}',
    ):
        (tmp_path / "study.json").write_text(damaged)
        study(with_corners(), **arguments)
        assert set(json.loads((tmp_path / "study.json").read_text())) == set(parts)
    assert trainings == ["train"] * 2


def test_runs_of_a_comparison_are_reused(
    tmp_path: Path, trainings: list[str], drawings: list[str]
) -> None:
    words: dict[str, Any] = {"noises": ["uniform:0.3"], "out": tmp_path}
    bare = {key: value for key, value in BARE.items() if key != "track_every"}
    drpl.compare(tiny_data(), **words, **bare)
    assert trainings == ["train"]
    found = drpl.study(tiny_data(), **words, **BARE)
    assert trainings == ["train"]
    (note,) = [one for one in found.notes if "losses over epochs" in one]
    assert "cross_entropy, tiny, uniform:0.3, seed 1: trained without --track-every" in note
    drpl.compare(tiny_data(), **words, **bare)
    assert trainings == ["train"]


def test_what_cannot_be_shown_is_told(tmp_path: Path, drawings: list[str]) -> None:
    data = tiny_data()
    found = study(data, out=tmp_path, **BARE)  # labels as they are, and no classes outside
    truth, probes = found.notes
    assert "tiny, no noise added: nobody knows which labels are wrong" in truth
    assert "probes was left out: the data have no classes outside; set some aside" in probes
    assert found.separation.cross_entropy.isna().tolist() == [True]
    assert not (tmp_path / "look").exists()
    assert not (tmp_path / "probes").exists()
    assert truth in (tmp_path / "report.html").read_text()

    again = study(data, out=tmp_path, target=target(), **BARE)  # now there are other classes
    assert again.notes == (truth,)
    table = pd.read_csv(tmp_path / "probes" / "probes.csv", keep_default_na=False)
    assert set(table.method) == {"cross_entropy", "untrained"}
    before = dates(tmp_path / "probes")
    assert before
    study(data, out=tmp_path, target=target(), **BARE)
    assert dates(tmp_path / "probes") == before
    study(data, out=tmp_path, target=replace(data, name="own"), **BARE)
    assert dates(tmp_path / "probes")["probes.csv"] > before["probes.csv"]


def test_probes_of_many_classes_outside_are_of_the_first_25() -> None:
    pixels, labels = torch.zeros(900 * 5, 1, 8, 8, dtype=torch.uint8), torch.arange(4500) % 900
    names = [f"other {c}" for c in range(900)]
    data = replace(tiny_data(), outside=in_memory(pixels, labels, names))
    found = studying._splits_of_outside(data)
    assert found.train.classes == tuple(names[:25])
    task = prepare_task(found, (), studying.PROBED, (1, 8, 8), 1)
    assert (len(task.classes), len(task.labels)) == (25, 125)
    few = replace(data, outside=target().train)
    assert studying._splits_of_outside(few).train is few.outside


def test_as_many_images_are_probed_as_asked_for(
    tmp_path: Path, drawings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int | None] = []

    def counted(*runs: Any, limit: int | None, **more: Any) -> Any:
        limits.append(limit)
        return probe(*runs, limit=limit, **more)

    monkeypatch.setattr(studying, "probe", counted)
    for images in (0, 20, 20):  # the last has nothing to do
        study(with_corners(), out=tmp_path, probe_images=images, **BARE)
    assert limits == [None, 20]


def test_failures_do_not_stop_the_others(
    command: Command, tiny_file: Path, drawings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = as_options(BARE["settings"])
    noises = ("--noise", "uniform:0.3", "--noise", "ood:0.3")
    words = ("study", tiny_file, *noises, "--methods", "cross_entropy", "-o", "s", "--jobs", 1)
    answer = command(*words, *short)
    assert answer.code == 1
    assert "1 cells failed" in answer.err
    assert "making detectors.csv" in answer.err
    assert "cross_entropy, ood:0.3, seed 1: out-of-distribution noise needs images" in answer.out
    assert "note: probes was left out: " in answer.out
    assert "all is in s: detectors.csv, figures, " in answer.out
    assert pd.read_csv("s/separation.csv").noise.tolist() == ["uniform:0.3"]

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(grid, "execute", stopped)
        answer = command(*words, *short)
    assert answer.code == 130
    assert "Stopped. What was finished is kept; go on with:\n  drpl study " in answer.err

    answer = command("study", "nothing.npz", "--methods", "cross_entropy", "-o", "n", "--jobs", 1)
    assert answer.code == 2
    none = ("--noise", "ood:0.3", "--methods", "cross_entropy", "-o", "n", "--jobs", 1)
    answer = command("study", tiny_file, *none, *short)
    assert answer.code == 1
    assert "note: no run was finished, so there is nothing to show" in answer.out


def test_a_look_is_at_wrong_labels_that_were_not_detected(made: Study, tmp_path: Path) -> None:
    run = Result.load(made.folder / "runs" / "uniform-0.2+ood-0.1" / "cross_entropy" / "seed-1")
    with np.load(run.folder / "samples.npz") as found:
        table = dict(found)
    copied = replace(run, folder=tmp_path / "run")
    for path in run.folder.rglob("*"):
        if path.is_file():
            write_atomic(copied.folder / path.relative_to(run.folder), path.read_bytes())
    table["flagged"] = np.zeros(72, bool)  # nothing was detected
    write_arrays(copied.folder / "samples.npz", table)
    asked = grid.Grid(with_corners(), tmp_path, METHODS)
    files, notes = _look([copied], asked, tmp_path / "look")
    assert notes == [studying.ONE_CELL.format(8, 8)]
    assert files
    assert all(path.exists() for path in files)
    ids = pd.read_csv(tmp_path / "look" / "look.csv").id.tolist()
    assert len(ids) == 6
    assert table["wrong"][ids].all()
    learnt = find_memorised(table)[:6].tolist()
    assert ids[: len(learnt)] == learnt

    table["flagged"] = table["wrong"]  # everything was
    write_arrays(copied.folder / "samples.npz", table)
    files, (note,) = _look([copied], asked, tmp_path / "none")
    assert files == []
    assert "no wrong label went undetected" in note


def test_vectors_are_neither_looked_at_nor_probed(tmp_path: Path, drawings: list[str]) -> None:
    x = np.random.default_rng(0).normal(size=(60, 5)) + 3 * (np.arange(60) % 2)[:, None]
    data = arrays(x, np.arange(60) % 2, classes=["a", "b"], name="v")
    words = {"settings": {"schedule": {"epochs": 1, "lr": [[1, 0.05]]}}}
    data = replace(data, outside=replace(data.train, classes=("c", "d")))
    found = study(data, noises=["uniform:0.3"], out=tmp_path, **BARE | words)
    text = "\n".join(found.notes)
    assert "probes was left out: " in text
    assert "no maps of the image" in text
    assert (tmp_path / "report.html").exists()
