"""Does a second encoder help `drpl clean`? python -m benchmarks.second_encoder --data-dir FOLDER

CIFAR-10's first 3,000 TEST images with wrong labels, as vectors of `lite0`, of `lite2`, of both
side by side, and with mirror images. Wrong labels are found by DRPL with one seed on each, with two
on `lite0`, and with one on `lite0` and one on `lite2`. What is finished is not done again.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

import drpl
from drpl.data.dataset import DatasetSplits, statistics
from drpl.data.images import TensorImages
from drpl.data.sources import ReadOptions, load
from drpl.files import read_arrays, write_atomic, write_json
from drpl.noise.inject import corrupt
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions

IMAGES, SEEDS = 3000, (11, 12)
NOISES = ("uniform:0.3", "nonuniform:0.5")  # the second moves half of five classes to look-alikes
RESULTS = Path("benchmarks/results/second-encoder")

Losses = np.ndarray[Any, np.dtype[np.float64]]


def main() -> None:
    words = argparse.ArgumentParser(description="One encoder or two.")
    words.add_argument("--out", type=Path, default=Path("runs/second-encoder"), help="the runs")
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--cache", type=Path, help="where features are kept")
    asked = words.parse_args()
    options = ReadOptions(cache=asked.cache)
    whole = load("cifar10", ReadOptions(data_dir=asked.data_dir))
    assert whole.test is not None
    clean = replace(whole, train=whole.test.select(torch.arange(IMAGES)), test=None)
    one, other, mirrored, also = (
        drpl.encode(clean, name, mirrored=twice, read_options=options)
        for twice in (False, True)
        for name in ("lite0", "lite2")
    )
    sets = {"lite0": one, "lite2": other, "both": join(one, other)}
    sets |= {"lite0, mirrored": mirrored, "both, mirrored": join(mirrored, also)}
    rows = [
        {"noise": noise, "seed": seed, **compare(sets, noise, seed, asked.out)}
        for noise in NOISES
        for seed in SEEDS
    ]
    table = pd.DataFrame(rows)
    write_atomic(RESULTS.with_suffix(".csv"), to_csv(table))
    about = {"command": "python -m benchmarks.second_encoder", "images": IMAGES}
    write_json(RESULTS.with_suffix(".json"), {**about, "versions": list_versions()})
    print(table.to_string(), table.mean(numeric_only=True).to_string(), sep="\n")


def join(one: DatasetSplits, other: DatasetSplits) -> DatasetSplits:
    """The vectors of two encoders side by side; training standardises each number."""
    every = torch.arange(len(one.train))
    images = TensorImages(torch.cat([data.train.images.load(every) for data in (one, other)], 1))
    mean, std = statistics(images)
    return replace(one, train=replace(one.train, images=images), mean=mean, std=std, encoding=None)


def compare(sets: dict[str, DatasetSplits], noise: str, seed: int, out: Path) -> dict[str, float]:
    """The AUROC of each way."""
    losses: dict[str, list[Losses]] = {}
    for name, data in sets.items():
        noisy, _ = corrupt(data, noise, seed)
        for k in range(2 if name == "lite0" else 1):
            folder = out / noise.replace(":", "-") / f"seed-{seed}" / f"{name}-{k}"
            drpl.detect(noisy, settings={"pool": True}, seed=seed + 100 * k, out=folder, quiet=True)
            split = read_arrays(folder / "splits" / "pooled.npz")
            losses.setdefault(name, []).append(rank(split["losses"]))
    truth = noisy.train.truth
    assert truth is not None
    wrong = truth.is_noisy(noisy.train.labels).numpy()
    losses |= {
        "lite0": losses["lite0"][:1],
        "lite0, two seeds": losses["lite0"],
        "lite0 and lite2, a run each": [losses["lite0"][0], losses["lite2"][0]],
    }
    scores = {name: roc_auc_score(wrong, np.sum(each, 0)) for name, each in losses.items()}
    found = {name: round(float(score), 4) for name, score in scores.items()}
    print(noise, seed, found, flush=True)
    return found


def rank(values: Losses) -> Losses:
    """The place of each value in their order: what two runs have in common."""
    return values.argsort().argsort().astype(np.float64)


if __name__ == "__main__":
    main()
