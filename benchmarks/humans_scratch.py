"""Wrong labels that people made: DRPL, cleanlab and small loss on CIFAR-10N, at the same cost.

    python benchmarks/humans_scratch.py --data-dir FOLDER [--out FOLDER]      an hour of two cores

The first 20,000 training images with the worse of their human labels, at 16 x 16 pixels; a PreAct
ResNet-18 of width 16 for everyone. DRPL sets the cost: what its two stages take, a semi-supervised
step counting for a third more because it looks at each image twice. Cleanlab's five folds and the
training whose losses small loss takes share out as many steps.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from drpl import files
from drpl.cleaning.plan import Choice, scale_epochs
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.files import read_json
from drpl.report.table import to_csv
from drpl.runs import execute as pipeline
from drpl.runs import model
from drpl.runs.execute import execute, list_versions
from drpl.runs.experiment import Execution

IMAGES, FOLDS, SEED, BATCH = 20_000, 5, 1, 128
TWICE = 4 / 3  # the cost of a step that predicts plain images before it learns mixed ones
COMMON = {"width": 16, "flip": True}


def main() -> None:
    words = argparse.ArgumentParser(description="Human label noise: DRPL, cleanlab, small loss.")
    words.add_argument("--out", type=Path, default=Path("runs/humans-scratch"), help="the runs")
    words.add_argument("--results", type=Path, default=Path("benchmarks/results/humans"))
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--effort", type=float, default=0.4, help="share of the preset's epochs")
    asked = words.parse_args()
    data = load("cifar10n:worse_label", ReadOptions(size=16, data_dir=asked.data_dir))
    data = replace(data, train=data.train.select(torch.arange(IMAGES)), test=None)
    truth = data.train.truth
    assert truth is not None
    wrong = truth.is_noisy(data.train.labels).numpy()
    rows: list[dict[str, Any]] = []
    images = 0
    for name, find in (("drpl", by_drpl), ("cleanlab", by_cleanlab), ("cross_entropy", by_loss)):
        began = time.monotonic()
        scores, cost = find(data, asked.out, name, images or asked.effort)
        images = images or cost
        for score, values in scores.items():
            rows.append({"detector": name, "score": score, **judged(values, wrong), "images": cost})
        print(rows[-1], f"{time.monotonic() - began:.0f} s", flush=True)
    table = pd.DataFrame(rows)
    files.write_atomic(asked.results / "scratch.csv", to_csv(table))
    about = {
        "command": "python benchmarks/humans_scratch.py",
        "effort": asked.effort,
        "seed": SEED,
        "samples": len(wrong),
        "wrong": int(wrong.sum()),
        "seconds of training": round(seconds(asked.out)),
        "versions": list_versions(),
    }
    files.write_json(asked.results / "scratch.json", about)
    print(table.to_string())


def judged(scores: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any]) -> dict[str, float]:
    """AUROC, and the share of wrong ones among as many of the highest as there are wrong ones."""
    top = np.argsort(-scores, kind="stable")[: wrong.sum()]
    return {"auroc": float(roc_auc_score(wrong, scores)), "precision": float(wrong[top].mean())}


def by_drpl(data: DatasetSplits, out: Path, name: str, effort: float) -> tuple[dict[str, Any], int]:
    """The loss after the first, after the second and by both stages."""
    whole = Choice(data, "small", {"pool": True, "width": 16, "flip": True})
    choice = scale_epochs(whole, effort, BATCH)
    result = execute(choice.build(SEED, "detect"), Execution(folder=out / name))
    found = {}
    for stage in ("relabel", "detect", "pooled"):
        with np.load(out / name / "splits" / f"{stage}.npz") as split:
            found[stage] = split["losses"]
    weights = {"detect": TWICE}
    return found, round(sum(row["images"] * weights.get(row["stage"], 1) for row in result.history))


def by_loss(data: DatasetSplits, out: Path, name: str, images: float) -> tuple[dict[str, Any], int]:
    """The loss after plain training."""
    result = trained(data, out / name, name, round(images / len(data.train)))
    with np.load(out / name / "samples.npz") as table:
        return {"loss": table["loss"]}, result


def by_cleanlab(
    data: DatasetSplits, out: Path, name: str, images: float
) -> tuple[dict[str, Any], int]:
    """Cleanlab's label quality from predictions of networks that have not seen the sample."""
    labels = data.train.labels.numpy()
    probs, cost = np.zeros((len(labels), len(data.train.classes))), 0
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(labels, labels)
    epochs = round(images / (len(labels) * (FOLDS - 1)))
    for k, (known, new) in enumerate(folds):
        part = replace(data, train=data.train.select(torch.from_numpy(known)))
        cost += trained(part, out / name / f"fold-{k}", "cross_entropy", epochs)
        unseen = data.train.select(torch.from_numpy(new)).images
        probs[new] = model.load(out / name / f"fold-{k}").predict(unseen).numpy()
    ways = ("self_confidence", "normalized_margin")
    return {way: -get_label_quality_scores(labels, probs, method=way) for way in ways}, cost


def trained(data: DatasetSplits, out: Path, method: str, epochs: int) -> int:
    """Train that many epochs, the rate falling after two thirds; how many images that took."""
    rates = [[1, 0.1], [1 + round(2 * epochs / 3), 0.01]]
    schedule = {"epochs": epochs, "lr": rates, "batch_size": BATCH}
    settings = {**COMMON, "schedule": schedule}
    result = pipeline.train(
        data, method=method, preset="small", settings=settings, seed=SEED, out=out
    )
    return int(result.summary["images"])


def seconds(out: Path) -> float:
    """What all runs took."""
    runs = [read_json(path) for path in out.rglob("result.json")]
    return float(sum(run["seconds"] for run in runs))


if __name__ == "__main__":
    main()
