"""Is the recall that `drpl clean` measures on planted errors that of real ones of their kind?

    python -m benchmarks.planted --data-dir FOLDER

CIFAR-10 and 40 classes of imagenet32-mini (Tiny ImageNet, see sizes.py) as vectors of `lite0`,
some of each, with 5 to 25 % of the labels flipped to classes that look alike. The share of these
flips that the list has is put beside the share that was said. What is finished is kept in the
folder of `--out`.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import drpl
from benchmarks import humans, sizes
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.files import read_arrays, write_atomic, write_json
from drpl.noise.transition import transition
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions

CASES = (  # data set, samples, share of flips, seed
    *(("CIFAR-10", 5000, rate, seed) for seed in (1, 2) for rate in (0.05, 0.1, 0.2)),
    *(("40 classes", 4000, rate, 1) for rate in (0.05, 0.1, 0.25)),
    ("40 classes", 9000, 0.1, 1),
)
BUDGET = "3m"
RESULTS = Path("benchmarks/results/planted")


def main() -> None:
    words = argparse.ArgumentParser(description="Planted and real recall.")
    words.add_argument("--out", type=Path, default=Path("runs/planted"), help="the runs")
    words.add_argument("--data-dir", type=Path, required=True, help="where the data sets are")
    asked = words.parse_args()
    began = time.monotonic()
    rows = list(measure_all(asked.data_dir, asked.out))
    write_atomic(RESULTS / "table.csv", to_csv(pd.DataFrame(rows)))
    about = {"command": "python -m benchmarks.planted", "seconds": round(time.monotonic() - began)}
    write_json(RESULTS / "about.json", {**about, "versions": list_versions()})


def measure_all(data_dir: Path, out: Path) -> Iterator[dict[str, Any]]:
    """A row for each case."""
    people = humans.read("worse_label", ReadOptions(data_dir=data_dir), humans.IMAGES)
    cifar = drpl.encode(people, "lite0", mirrored=True)
    right = replace(cifar.train, labels=cifar.train.true_labels, truth=None)
    whole = {
        "CIFAR-10": replace(cifar, train=right, test=None),
        "40 classes": replace(sizes.read_classes(data_dir / "imagenet32-mini"), outside=None),
    }
    for name, samples, rate, seed in CASES:
        place = out / f"{name}, {samples}, {rate}, {seed}"
        row = {"data": name, "samples": samples, "flipped": rate, "seed": seed}
        row |= measure(flip(whole[name], samples, rate, seed), place, seed)
        print(row, flush=True)
        yield row


def flip(data: DatasetSplits, samples: int, rate: float, seed: int) -> DatasetSplits:
    """Some of the samples, a share of whose labels name a class that looks alike."""
    draws = torch.Generator().manual_seed(seed)
    few = data.train.select(torch.randperm(len(data.train), generator=draws)[:samples])
    alike = torch.from_numpy(sizes.find_alike(data))
    eye = torch.eye(len(alike), dtype=torch.float64)
    noise = transition((eye + (alike - eye) * rate / sizes.ALIKE).numpy())
    return replace(data, train=noise(few, draws), test=None)


def measure(data: DatasetSplits, out: Path, seed: int) -> dict[str, float]:
    """The recall that is said, and the one that is."""
    found = drpl.clean(data, out, budget=BUDGET, repeats=1, seed=seed, quiet=True)
    table = read_arrays(out / "samples.npz")
    listed, wrong = table["flagged"].astype(bool), table["wrong"].astype(bool)
    return {
        "wrong": float(wrong.mean()),
        "planted recall": found.figures["planted"]["recall"],
        "true recall": float(listed[wrong].mean()),
    }


if __name__ == "__main__":
    main()
