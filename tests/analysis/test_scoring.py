"""`drpl score`: every detector on a finished run."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.files import read_arrays, write_arrays
from drpl.registry import DETECTORS
from tests.conftest import Command
from tests.support.tiny import tiny_config

Mistake = Callable[..., str]
BY_VECTORS = {"neighbour_agreement", "simifeat_vote", "simifeat_rank"}


@pytest.fixture(scope="session")
def finished(tiny: DatasetSplits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cross-entropy on the tiny problem, observed after each of four epochs."""
    folder = tmp_path_factory.mktemp("score") / "run"
    config = tiny_config("cross_entropy", 4)
    drpl.train(
        tiny,
        method="cross_entropy",
        config=config,
        noise="uniform:0.25",
        out=folder,
        track_every=1,
        quiet=True,
    )
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, as from elsewhere, in the folder where commands run."""
    shutil.copytree(finished, tmp_path / "copied")
    return Path("copied")


def cut(run: Path, **changed: object) -> None:
    """Change tables of the run's evidence."""
    path = run / "evidence" / "train.npz"
    with np.load(path) as arrays:
        tables = dict(arrays)
    np.savez(path, **{**tables, **changed})


def ended(run: Path) -> None:
    """Leave only the last observation, as without --track-every."""
    with np.load(run / "evidence" / "train.npz") as arrays:
        last = {name: arrays[name][-1:] for name in ("losses", "margins")}
    cut(run, **last)


def blinded(run: Path) -> None:
    """Forget the truth."""
    with np.load(run / "samples.npz") as arrays:
        known = {name: arrays[name] for name in arrays if name not in ("true", "wrong")}
    np.savez(run / "samples.npz", **known)


def test_every_detector_finds_the_wrong_labels(command: Command, run: Path) -> None:
    answer = command("score", run, "-o", "table.csv")
    assert answer.code == 0, answer.err
    assert "AUROC" in answer.out
    assert answer.out.count("skipped") == len(BY_VECTORS)
    table = pd.read_csv("table.csv")
    assert table.detector.tolist() == list(DETECTORS)
    assert set(table.detector[table.auroc.isna()]) == BY_VECTORS  # these are images
    table = table[table.auroc.notna()]
    assert set(table.run) == {"copied"}
    assert set(table.stage) == {"train"}
    one_heap = table.detector == "loss_gaussians"  # of so few samples, for two Gaussians
    assert (table.auroc[~one_heap] > 0.8).all(), table
    assert (table.auroc > 0.5).all(), table
    scores = pd.read_csv(run / "scores.csv", keep_default_na=False)
    columns = [f"train:{name}" for name in DETECTORS if name not in BY_VECTORS]
    assert list(scores) == ["id", "path", "given_label", *columns]
    assert len(scores) == 72
    wrong = np.load(run / "samples.npz")["wrong"]
    for column, auroc in zip(columns, table.auroc, strict=True):
        assert roc_auc_score(wrong, scores[column]) == pytest.approx(auroc, abs=1e-4)
    for row in table.itertuples():
        assert f"{int(row.flagged):>7}  {row.auroc:.4f}  {row.tpr:.4f}  {row.fpr:.4f}" in answer.out


def test_vectors_are_compared_with_each_other(tmp_path: Path) -> None:
    draws = np.random.default_rng(3)
    labels = np.arange(240) % 3
    x = 4 * np.eye(3, 6)[labels] + draws.normal(size=(240, 6))
    outside = drpl.arrays(draws.normal(size=(60, 6)), np.arange(60) % 2, name="none")
    data = drpl.arrays(x, labels, name="vectors")
    config = tiny_config("cross_entropy", 4)
    noise = "uniform:0.2+ood:0.2"
    for method in ("cross_entropy", "elr"):
        folder = tmp_path / method
        config = tiny_config(method, 4)
        drpl.train(
            data, method=method, config=config, noise=noise, ood=outside, out=folder, quiet=True
        )
        table = drpl.score(folder).set_index("detector")
        assert set(table.index) == set(DETECTORS)
        assert (table.skipped == "").all()
        assert (table.auroc[sorted(BY_VECTORS)] > 0.8).all(), table
        assert table.auroc_outside.notna().all()
        stored = read_arrays(folder / "evidence" / "train.npz")
        assert stored["vectors"].shape == (240, 6)
        assert ("targets" in stored) == (method == "elr")


def test_the_runs_own_verdict_is_small_loss(command: Command, run: Path) -> None:
    """What training wrote about the last split and what scoring says afterwards are one."""
    command("score", run, "--detector", "small_loss", "-o", "table.csv")
    row = pd.read_csv("table.csv").iloc[0]
    own = drpl.Result.load(run)
    assert row.flagged == own.summary["flagged"]
    assert own.detection is not None
    for figure, value in own.detection.items():
        assert row[figure] == pytest.approx(value, rel=1e-5)


def test_a_threshold_of_ones_own(command: Command, run: Path) -> None:
    words = ("posterior:0.05,posterior", "two_stage:0.5", "posterior:1")
    chosen = [word for name in words for word in ("--detector", name)]
    assert command("score", run, *chosen, "-o", "table.csv").code == 0
    table = pd.read_csv("table.csv").set_index("detector")
    scores = pd.read_csv(run / "scores.csv")
    assert list(scores)[3:] == ["train:posterior", "train:two_stage"]
    for text, threshold in [("posterior:0.05", 0.05), ("posterior", 0.5), ("two_stage:0.5", 0.5)]:
        name = text.partition(":")[0]
        assert table.flagged[text] == (scores[f"train:{name}"] > threshold).sum()
    assert table.flagged["posterior:1"] == 0
    assert table.flagged["posterior:0.05"] > table.flagged["posterior"]


def test_without_the_truth_only_counts(command: Command, run: Path) -> None:
    blinded(run)
    answer = command("score", run)
    assert answer.code == 0
    assert "flagged" in answer.out
    assert "AUROC" not in answer.out
    assert "TPR" not in answer.out


def test_every_detector_works_on_a_run_that_was_not_tracked(command: Command, run: Path) -> None:
    ended(run)
    answer = command("score", run)
    assert answer.code == 0
    assert answer.out.count("skipped") == len(BY_VECTORS)
    assert {"train:trajectory", "train:margin"} <= set(pd.read_csv(run / "scores.csv"))


def test_what_the_evidence_of_older_versions_does_not_allow(
    command: Command, mistake: Mistake, run: Path
) -> None:
    ended(run)
    path = run / "evidence" / "train.npz"
    old = {name: table for name, table in read_arrays(path).items() if "mean" not in name}
    write_arrays(path, old)
    answer = command("score", run)
    assert answer.code == 0
    for name in ("trajectory", "margin"):
        assert f"skipped on train: {name} needs what several epochs say" in answer.out
        assert "train again in a new folder" in mistake("score", run, "--detector", name)
    columns = set(pd.read_csv(run / "scores.csv"))
    assert "train:small_loss" in columns
    assert not columns & {"train:trajectory", "train:margin"}


def test_without_cleanlab(
    command: Command, mistake: Mistake, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("cleanlab", "cleanlab.filter", "cleanlab.rank"):
        monkeypatch.setitem(sys.modules, module, None)
    answer = command("score", run)
    assert answer.code == 0
    assert "pip install 'drpl[cleanlab]'" in answer.out
    assert "pip install 'drpl[cleanlab]'" in mistake("score", run, "--detector", "confident")


def test_words_that_are_wrong(mistake: Mistake, run: Path) -> None:
    assert "did you mean 'small_loss'?" in mistake("score", run, "--detector", "smal_loss")
    assert "'x' is not a number" in mistake("score", run, "--detector", "posterior:x")
    assert "not the folder of a run" in mistake("score", "nowhere")
    assert not (run / "scores.csv").exists()


def test_damaged_files(mistake: Mistake, run: Path) -> None:
    evidence = run / "evidence" / "train.npz"
    whole = evidence.read_bytes()
    evidence.write_bytes(whole[:200])
    assert "train.npz is damaged" in mistake("score", run)
    evidence.write_bytes(whole)
    cut(run, losses=np.zeros((4, 71), np.float32))
    assert "losses is (4, 71), not (4, 72)" in mistake("score", run)
    evidence.write_bytes(whole)
    cut(run, probs=np.full((72, 3), np.nan, np.float32))
    assert "probs is not finite" in mistake("score", run)
    cut(run, probs=np.full((72, 2), 0.5, np.float32))
    assert "probs is (72, 2), not (72, 3)" in mistake("score", run)
    evidence.unlink()
    assert "has no evidence" in mistake("score", run)
    evidence.write_bytes(whole)
    (run / "samples.csv").write_text("id,path\n")
    assert "samples.csv is damaged" in mistake("score", run)
    (run / "samples.npz").unlink()
    assert "samples.npz is damaged" in mistake("score", run)
    (run / "result.json").unlink()
    assert "is not finished" in mistake("score", run)


def test_stages_come_in_the_order_of_training(finished: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    for name in ("again", "zeroth"):
        shutil.copy(run / "evidence" / "train.npz", run / "evidence" / f"{name}.npz")
    history = run / "history.jsonl"
    first = json.loads(history.read_text().splitlines()[0]) | {"stage": "zeroth"}
    history.write_text(json.dumps(first) + "\n" + history.read_text())
    assert drpl.score(run, ["negative"]).stage.tolist() == ["zeroth", "train", "again"]


def test_a_detector_of_ones_own(finished: Path, tmp_path: Path) -> None:
    def least(evidence: drpl.Evidence, labels: Tensor) -> Tensor:
        assert torch.equal(labels, torch.from_numpy(np.load(finished / "samples.npz")["given"]))
        return evidence.losses.amin(0)

    run = shutil.copytree(finished, tmp_path / "run")
    table = drpl.score(run, [least, "small_loss"])
    assert table.detector.tolist() == ["least", "small_loss"]
    assert table.auroc.gt(0.8).all()
    assert "train:least" in pd.read_csv(run / "scores.csv")


def write_probs(labels: list[str]) -> pd.DataFrame:
    """Probabilities for these labels, of which every fifth is contradicted."""
    draws = np.random.default_rng(4)
    classes = sorted(set(labels))
    numbers = np.array([classes.index(name) for name in labels])
    wrong = np.arange(len(labels)) % 5 == 0
    logits = draws.normal(size=(len(labels), len(classes)))
    logits[np.arange(len(labels)), (numbers + wrong) % len(classes)] += 6
    odds = np.exp(logits)
    np.save("probs.npy", odds / odds.sum(1, keepdims=True))
    pd.DataFrame({"label": labels}).to_csv("labels.csv", index=False)
    return pd.DataFrame({"label": labels, "wrong": wrong, "number": numbers})


@pytest.mark.parametrize("names", ["0 1 2", "ash elm oak"])
def test_probabilities_that_one_has(command: Command, names: str) -> None:
    truth = write_probs(names.split() * 60)
    words = ("score", "--probs", "probs.npy", "--labels", "labels.csv", "-o", "issues.csv")
    answer = command(*words)
    assert answer.code == 0
    table = pd.read_csv("issues.csv", dtype={"given_label": str}).set_index("id")
    assert f"flagged    {table.flagged.sum()} of 180 labels" in answer.out
    assert answer.out.count("sample ") == 10
    assert (table.sort_index().given_label == truth.label).all()
    assert truth.wrong[table.index[table.flagged]].mean() > 0.9
    np.save("labels.npy", truth.number)
    command(*words[:4], "labels.npy", "-o", "again.csv", "--rank-by", "normalized_margin")
    again = pd.read_csv("again.csv")
    assert again.normalized_margin.is_monotonic_increasing
    assert sorted(again.id[again.flagged]) == sorted(table.index[table.flagged])


def test_probabilities_with_mistakes(mistake: Mistake, tmp_path: Path) -> None:
    write_probs(["a", "b", "c"] * 20)
    probs, labels = ("--probs", "probs.npy"), ("--labels", "labels.csv")
    for words in ((), probs, labels, ("runs", *probs, *labels), (*probs, *labels, "--detector=x")):
        assert "name folders of runs, or give --probs with --labels" in mistake("score", *words)
    assert "cannot read nothing.npy" in mistake("score", "--probs", "nothing.npy", *labels)
    Path("other.csv").write_text("name\na\n")
    assert "lacks the column 'label'" in mistake("score", *probs, "--labels", "other.csv")
    Path("other.csv").write_text("label\n" + "a\nb\n" * 30)
    assert "2 names for 3 columns" in mistake("score", *probs, "--labels", "other.csv")
    np.savez("probs.npz", probs=np.ones((2, 2)))
    assert "one array is wanted" in mistake("score", "--probs", "probs.npz", *labels)
