"""How many samples it takes: `drpl clean` on features beside k-NN and cleanlab on the same ones.

    python -m benchmarks.sizes --data-dir FOLDER [--seeds 1 2 3]

CIFAR-10N's human labels, and 40 classes of imagenet32-mini in which a quarter of the labels name a
class that looks alike and a tenth of the images show none of the classes; of these classes there
are 10,000 images and no more. imagenet32-mini is 60 classes of Tiny ImageNet in the format of
ImageNet32, and no part of that. What is finished is kept in the folder of `--out` and not done
again.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import normalize

import drpl
from benchmarks import humans
from benchmarks.humans import Found
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.files import write_atomic, write_json
from drpl.noise.inject import make_noise
from drpl.noise.kind import NoiseContext
from drpl.noise.transition import transition
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions

SIZES = (1000, 3000, 10_000, 20_000)
ALIKE, INTRUDERS = 0.25, 0.1
BUDGET = "4m"
RESULTS = Path("benchmarks/results/sizes")


def main() -> None:
    words = argparse.ArgumentParser(description="From 1,000 to 20,000 samples.")
    words.add_argument("--out", type=Path, default=Path("runs/sizes"), help="the runs")
    words.add_argument("--data-dir", type=Path, required=True, help="where the data sets are")
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    asked = words.parse_args()
    whole = {
        "CIFAR-10N worse": read_humans(asked.data_dir),
        "40 classes": read_classes(asked.data_dir / "imagenet32-mini"),
    }
    for size in SIZES:
        for name, data in whole.items():
            for seed in asked.seeds if size <= len(data.train) else ():
                few = draw(data, size, seed)
                for detector, find in DETECTORS.items():
                    out = asked.out / f"{name}, {size}" / f"seed-{seed}" / detector
                    humans.measure(out, few, seed, find)
    write(asked.out)


def write(out: Path) -> None:
    """All rows and how they came about, into the results."""
    found = pd.DataFrame(humans.collect(out))
    found["set"] = found.pop("labels").str.rsplit(", ", n=1).str[0]
    found = found.sort_values(["set", "samples", "seed"], kind="stable").drop(
        columns=["accuracy", "run"]
    )
    write_atomic(RESULTS / "sizes.csv", to_csv(found))
    about = {"command": "python -m benchmarks.sizes", "encoder": "lite0", "budget": BUDGET}
    seconds = round(found["seconds"].sum())
    write_json(RESULTS / "about.json", {**about, "seconds": seconds, "versions": list_versions()})
    means = found.groupby(["set", "samples", "detector"])[["auroc", "precision"]].mean()
    print(means.unstack().to_string())


def read_humans(data_dir: Path) -> DatasetSplits:
    """CIFAR-10N as vectors."""
    read_options = ReadOptions(data_dir=data_dir)
    return drpl.encode(humans.read("worse_label", read_options, SIZES[-1]), "lite0", mirrored=True)


def read_classes(folder: Path) -> DatasetSplits:
    """The 40 outer classes as vectors, the other 20 set aside."""
    data = drpl.load(str(folder))
    assert data.outside is not None
    joined = replace(data, train=data.train.concat(data.outside), test=None, outside=None)
    return drpl.encode(joined.hold_out(data.train.classes), "lite0", mirrored=True)


def draw(data: DatasetSplits, size: int, seed: int) -> DatasetSplits:
    """Some of the samples, by seed; those without wrong labels are given some."""
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))
    train = data.train.select(order[:size].sort().values)
    if data.outside is not None:
        noise = transition(find_alike(data)) + make_noise(
            f"ood:{INTRUDERS}", NoiseContext(outside=data.outside)
        )
        train = noise(train, torch.Generator().manual_seed(seed))
    return replace(data, train=train, test=None, outside=None)


def find_alike(data: DatasetSplits) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The transition matrix in which each class is taken for the two that lie nearest to it."""
    train = data.train
    vectors = train.images.load(torch.arange(len(train))) - torch.tensor(data.mean)
    count = len(train.classes)
    means = torch.stack([vectors[train.true_labels == c].mean(0) for c in range(count)])
    near = (normalize(means) @ normalize(means).T).fill_diagonal_(-1).topk(2).indices
    matrix = torch.eye(count, dtype=torch.float64) * (1 - ALIKE)
    return matrix.scatter(1, near, ALIKE / 2).numpy()


def by_clean(data: DatasetSplits, seed: int, out: Path) -> Found:
    """The order in which `drpl clean` lists all samples."""
    found = drpl.clean(data, out / "cleaned", budget=BUDGET, seed=seed, quiet=True)
    table = pd.read_csv(found.folder / "samples.csv")
    order = table.sort_values(["p_noisy", "loss"]).index.to_numpy()
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    return {"drpl clean": ranks}, None


DETECTORS = {
    "clean": by_clean,
    "neighbours": humans.by_neighbours,
    "regression": humans.by_regression,
}

if __name__ == "__main__":
    main()
