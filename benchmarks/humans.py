"""Wrong labels that people made: DRPL beside cleanlab, small loss, AUM and neighbours.

    python -m benchmarks.humans --data-dir FOLDER [--labels worse_label ...] [--seeds 1 2 3]
    python -m benchmarks.humans --data-dir FOLDER --detectors drpl elr ...

CIFAR-10N, the first 20,000 training images as vectors of the encoder `lite0`, the same ones for
everyone; and DRPL on the first 5,000 images themselves, by fine-tuning that network and from
scratch, for that takes far longer. What is finished is kept in the folder of `--out` and not done
again; rows of the results that a call does not run stay as they are.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from cleanlab.rank import get_label_quality_scores
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

import drpl
from drpl.cleaning.plan import Choice, scale_epochs
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.detection.left_out import predict_left_out
from drpl.detection.neighbours import vote_by_neighbours
from drpl.detection.noise_model import NoiseModel
from drpl.files import read_arrays, read_json, write_atomic, write_json
from drpl.report.table import to_csv
from drpl.runs import model
from drpl.runs.execute import execute, list_versions
from drpl.runs.experiment import Execution

IMAGES, FOLDS, NEIGHBOURS = 20_000, 5, 100
FEW = 5_000  # images that networks of pixels are trained on
SIDE, FROZEN = 64, 5  # pixels a side, and parts that keep their weights, in fine-tuning
SMALL, WIDTH = 16, 16  # pixels a side, and width, from scratch
EFFORT = {"finetune": 0.5, "scratch": 0.25}  # shares of the presets' epochs
LABELS = ("worse_label", "random_label1", "aggre_label")
RESULTS = Path("benchmarks/results/humans")

Scores = dict[str, np.ndarray[Any, Any]]
Found = tuple[Scores, float | None]  # scores by name, and the model's test accuracy
Detector = Callable[[DatasetSplits, int, Path], Found]
LATER = {  # methods that came after DRPL, and their names in the table
    "elr": "ELR",
    "elr_plus": "ELR+",
    "sop": "SOP",
    "pls": "PLS",
    "disc": "DISC",
    "dsos": "DSOS",
    "moit": "MOIT",
    "promix": "ProMix",
    "sncf": "SNCF",
}


def main() -> None:
    words = argparse.ArgumentParser(description="Human label noise.")
    words.add_argument("--out", type=Path, default=Path("runs/humans"), help="the runs")
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--labels", nargs="+", default=LABELS)
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    words.add_argument("--detectors", nargs="+", choices=list(DETECTORS), default=list(DETECTORS))
    asked = words.parse_args()
    read_options = ReadOptions(data_dir=asked.data_dir)
    for name in asked.detectors:
        side = {"finetune": SIDE, "scratch": SMALL}.get(name)
        for labels in asked.labels:
            if side:
                data = read(labels, replace(read_options, size=side), FEW)
                data = replace(data, test=None)  # each look at it would take long
            else:
                data = drpl.encode(read(labels, read_options, IMAGES), "lite0", mirrored=True)
            for seed in asked.seeds:
                place = asked.out / labels / f"seed-{seed}" / name
                measure(place, data, seed, DETECTORS[name])
    write(asked.out)


def write(out: Path) -> None:
    """All rows and how they came about, into the results."""
    rows = keep_others(RESULTS / "table.csv", pd.DataFrame(list(collect(out))))
    write_atomic(RESULTS / "table.csv", to_csv(rows))
    seconds = round(rows.drop_duplicates("run")["seconds"].sum())
    about = {"command": "python -m benchmarks.humans", "encoder": "lite0", "seconds": seconds}
    write_json(RESULTS / "about.json", {**about, "versions": list_versions()})
    print(rows.groupby(["labels", "detector"]).mean(numeric_only=True).to_string())


def keep_others(path: Path, now: pd.DataFrame) -> pd.DataFrame:
    """The rows of earlier runs with those of the present ones, in a fixed order."""
    if path.exists():
        before = pd.read_csv(path)
        now = pd.concat([before[~before["run"].isin(now["run"])], now])
    return now.sort_values("run", kind="stable")


def read(labels: str, read_options: ReadOptions, count: int) -> DatasetSplits:
    """The first training images with one set of human labels, and all test images."""
    data = load(f"cifar10n:{labels}", read_options)
    return replace(data, train=data.train.select(torch.arange(count)))


def measure(out: Path, data: DatasetSplits, seed: int, find: Detector) -> None:
    """Let a detector score all labels, and keep how well it did."""
    if (out / "scores.json").exists():
        return
    truth = data.train.truth
    assert truth is not None
    wrong = truth.is_noisy(data.train.labels).numpy()
    began = time.monotonic()
    scores, accuracy = find(data, seed, out)
    seconds = time.monotonic() - began
    rows = {name: {**judge(values, wrong), "accuracy": accuracy} for name, values in scores.items()}
    write_json(
        out / "scores.json", {"seconds": seconds, "samples": len(data.train), "scores": rows}
    )
    print(out, rows, f"{seconds:.0f} s", flush=True)


def judge(scores: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any]) -> dict[str, float]:
    """How well the scores tell wrong labels from right ones."""
    top = np.argsort(-scores, kind="stable")[: wrong.sum()]
    return {
        "auroc": float(roc_auc_score(wrong, scores)),
        "average precision": float(average_precision_score(wrong, scores)),
        "precision": float(wrong[top].mean()),
    }


def collect(out: Path) -> Iterator[dict[str, Any]]:
    """A row for each label set, seed and score."""
    for path in sorted(out.glob("*/*/*/scores.json")):
        labels, seed, run, _ = path.relative_to(out).parts
        found = read_json(path)
        for name, figures in found["scores"].items():
            about = {"labels": labels, "seed": int(seed.removeprefix("seed-")), "detector": name}
            about |= {"samples": found["samples"], "run": f"{labels}/{seed}/{run}"}
            yield {**about, **figures, "seconds": round(found["seconds"], 1)}


def by_drpl(data: DatasetSplits, seed: int, out: Path) -> Found:
    """The mean loss of both stages, as `drpl clean` takes it with one seed."""
    result = drpl.train(data, settings={"pool": True}, seed=seed, out=out / "run", quiet=True)
    with np.load(out / "run" / "splits" / "pooled.npz") as split:
        return {"DRPL": split["losses"]}, result.accuracy["last"]


def by_method(name: str, method: str, preset: str | None = None) -> Detector:
    """The loss by which a method itself judges labels in the end."""

    def find(data: DatasetSplits, seed: int, out: Path) -> Found:
        place = out / "run"
        result = drpl.train(data, method=method, preset=preset, seed=seed, out=place, quiet=True)
        return {name: read_arrays(place / "samples.npz")["loss"]}, result.accuracy["last"]

    return find


def by_loss(data: DatasetSplits, seed: int, out: Path) -> Found:
    """Plain training: the last loss, the mean over the second half, and the mean margin (AUM)."""
    result = drpl.train(data, method="cross_entropy", seed=seed, out=out / "run", quiet=True)
    with np.load(next((out / "run" / "evidence").glob("*.npz"))) as seen:
        scores = {
            "small loss, last epoch": seen["losses"][-1],
            "small loss, mean of epochs": seen["mean_losses"],
            "AUM": -seen["mean_margins"],
        }
    return scores, result.accuracy["last"]


def by_neighbours(data: DatasetSplits, seed: int, out: Path) -> Found:
    """How far the best other label leads among the nearest others; no seed matters."""
    images, labels = data.train.images, data.train.labels
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)
    vectors = (images.load(torch.arange(len(labels))) - mean) / std
    votes = vote_by_neighbours(vectors, labels, len(data.train.classes), NEIGHBOURS)
    own = votes.gather(1, labels[:, None]).squeeze(1)
    lead = votes.scatter(1, labels[:, None], -1.0).amax(1) - own
    return {"k-NN vote": lead.numpy()}, None


def by_regression(data: DatasetSplits, seed: int, out: Path) -> Found:
    """Cleanlab on predictions of a logistic regression for samples that it has not seen."""
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)
    x = ((data.train.images.load(torch.arange(len(data.train))) - mean) / std).numpy()
    y = data.train.labels.numpy()
    probs = np.zeros((len(y), len(data.train.classes)), np.float32)
    for known, new in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y):
        fitted = LogisticRegression(max_iter=100, tol=1e-3).fit(x[known], y[known])
        probs[new] = fitted.predict_proba(x[new])
    return {"cleanlab, logistic regression": -get_label_quality_scores(y, probs)}, None


def by_folds(data: DatasetSplits, seed: int, out: Path) -> Found:
    """Cleanlab on predictions of the same network as DRPL's, in five folds."""
    y = data.train.labels.numpy()
    probs = np.zeros((len(y), len(data.train.classes)))
    for k, (known, new) in enumerate(
        StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(y, y)
    ):
        part = replace(data, train=data.train.select(torch.from_numpy(known)), test=None)
        place = out / f"fold-{k}"
        drpl.train(part, method="cross_entropy", seed=seed, out=place, quiet=True)
        unseen = data.train.select(torch.from_numpy(new)).images
        probs[new] = model.load(place).predict(unseen).numpy()
    return {"cleanlab, same network": -get_label_quality_scores(y, probs)}, None


def by_finetuning(data: DatasetSplits, seed: int, out: Path) -> Found:
    """DRPL whose networks begin with the encoder's weights."""
    return {"DRPL, fine-tuned": detect(data, seed, out, "finetune", {"frozen": FROZEN})}, None


def by_scratch(data: DatasetSplits, seed: int, out: Path) -> Found:
    """DRPL as `drpl clean --features none` trains it."""
    settings = {"width": WIDTH, "flip": True}
    return {"DRPL, from scratch": detect(data, seed, out, "small", settings)}, None


def detect(
    data: DatasetSplits, seed: int, out: Path, preset: str, settings: dict[str, Any]
) -> np.ndarray[Any, Any]:
    """The mean loss of both stages."""
    choice = Choice(data, preset, {"pool": True, **settings})
    experiment = scale_epochs(choice, EFFORT[out.name]).build(seed, "detect")
    execute(experiment, Execution(folder=out / "run", quiet=True))
    with np.load(out / "run" / "splits" / "pooled.npz") as split:
        losses: np.ndarray[Any, Any] = split["losses"]
    return losses


def by_left_out(data: DatasetSplits, seed: int, out: Path) -> Found:
    """How probably wrong a label is by leave-one-out ridge regression; no seed matters."""
    train, mean, std = data.train, torch.tensor(data.mean), torch.tensor(data.std)
    found = predict_left_out(
        lambda index: (train.images.load(index) - mean) / std, train.labels, len(train.classes)
    )
    return {
        "leave-one-out ridge": NoiseModel.fit(found.scores, train.labels).posterior.numpy()
    }, None


DETECTORS: dict[str, Detector] = {
    "drpl": by_drpl,
    "literal": by_method("DRPL (literal)", "drpl", "literal"),
    "loss": by_loss,
    "neighbours": by_neighbours,
    "regression": by_regression,
    "left-out": by_left_out,
    "folds": by_folds,
    "scratch": by_scratch,
    "finetune": by_finetuning,
    **{method: by_method(name, method) for method, name in LATER.items()},
}

if __name__ == "__main__":
    main()
