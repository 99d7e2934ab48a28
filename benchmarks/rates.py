"""How much is wrong, without a review: does the interval of `drpl clean` contain the truth?

    python -m benchmarks.rates --data-dir FOLDER [--seeds 1 2 3] [--fashion FOLDER]

CIFAR-10's first 20,000 training images as vectors of `lite0`, with labels made wrong uniformly, by
classes that look alike, and by people (CIFAR-10N): the rate there needs no network but the
encoder. The digits, and 3,000 images of Fashion-MNIST if its folder is named, as pixels, by
`drpl clean` with a budget of a minute. What is finished is kept in the folder of `--out` and not
done again.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import drpl
from benchmarks import humans, sizes
from drpl.cleaning.estimate import estimate_rate
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.detection.left_out import predict_left_out
from drpl.detection.noise_model import NoiseModel
from drpl.files import read_json, write_atomic, write_json
from drpl.noise.inject import corrupt
from drpl.noise.transition import transition
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions
from drpl.runs.experiment import as_splits

UNIFORM, ALIKE = (0.0, 0.01, 0.05, 0.1, 0.2, 0.4), (0.01, 0.05, 0.1, 0.2)
PEOPLE = ("aggre_label", "random_label1", "worse_label")
PIXELS = (0.0, 0.05, 0.2, 0.4)
FASHION = 3000  # images of each part
RESULTS = Path("benchmarks/results/rates")


def main() -> None:
    words = argparse.ArgumentParser(description="The noise rate without a review.")
    words.add_argument("--out", type=Path, default=Path("runs/rates"), help="the runs")
    words.add_argument("--data-dir", type=Path, required=True, help="where the data sets are")
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    words.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST")
    asked = words.parse_args()
    for name, seed, data in list_vectors(asked.data_dir, asked.seeds):
        measure(asked.out / name / f"seed-{seed}.json", data, None)
    pixels = {"digits": as_splits("digits")}
    if asked.fashion:
        pixels["Fashion-MNIST"] = load(str(asked.fashion), ReadOptions(limit=FASHION))
    for (name, data), seed, rate in product(pixels.items(), asked.seeds, PIXELS):
        path = asked.out / f"{name}, uniform {rate:g}" / f"seed-{seed}.json"
        noisy, _ = corrupt(data, f"uniform:{rate}" if rate else None, seed, None)
        measure(path, noisy, seed)
    write(asked.out)


def write(out: Path) -> None:
    """All rows and how they came about, into the results."""
    rows = list(collect(out))
    write_atomic(RESULTS / "table.csv", to_csv(pd.DataFrame(rows)))
    about = {"command": "python -m benchmarks.rates", "encoder": "lite0, mirror images too"}
    write_json(RESULTS / "about.json", {**about, "versions": list_versions()})
    hits = [row["low"] <= row["wrong"] <= row["high"] for row in rows]
    print(pd.DataFrame(rows).to_string(), f"\n{sum(hits)} of {len(hits)} contain the truth")


def list_vectors(data_dir: Path, seeds: list[int]) -> Iterator[tuple[str, int, DatasetSplits]]:
    """Encoded CIFAR-10 with labels of every kind."""
    for labels in PEOPLE:
        people = humans.read(labels, ReadOptions(data_dir=data_dir), humans.IMAGES)
        yield f"people, {labels}", 0, drpl.encode(people, "lite0", mirrored=True)
    data = drpl.encode(people, "lite0", mirrored=True)
    data = replace(data, train=replace(data.train, labels=data.train.true_labels), test=None)
    near = sizes.find_alike(data)
    for seed in seeds:
        for rate in UNIFORM:
            noisy, _ = corrupt(data, f"uniform:{rate}" if rate else None, seed, None)
            yield f"uniform {rate:g}", seed, noisy
        for rate in ALIKE:
            eye = torch.eye(len(near), dtype=torch.float64).numpy()
            noise = transition(eye + (near - eye) * rate / sizes.ALIKE)
            train = noise(data.train, torch.Generator().manual_seed(seed))
            yield f"look-alike {rate:g}", seed, replace(data, train=train)


def measure(path: Path, data: DatasetSplits, seed: int | None) -> None:
    """The estimated rate beside the true one: of vectors at once, of pixels by a whole cleaning."""
    if path.exists():
        return
    train = data.train
    wrong = train.truth.is_noisy(train.labels) if train.truth else torch.zeros(len(train))
    if seed is None:
        mean, std = torch.tensor(data.mean), torch.tensor(data.std)
        scores = predict_left_out(
            lambda index: (train.images.load(index) - mean) / std, train.labels, len(train.classes)
        ).scores
        rate = asdict(estimate_rate(NoiseModel.fit(scores, train.labels)))
    else:
        out = path.with_suffix("")
        found = drpl.clean(data, out, budget="1m", features="none", seed=seed, quiet=True)
        rate = found.figures["noise rate"]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"samples": len(train), "wrong": float(wrong.double().mean()), **rate})
    print(path, read_json(path), flush=True)


def collect(out: Path) -> Iterator[dict[str, Any]]:
    """A row for each case."""
    for path in sorted(out.glob("*/seed-*.json")):
        seed = int(path.stem.removeprefix("seed-"))
        yield {"labels": path.parent.name, "seed": seed or None, **read_json(path)}


if __name__ == "__main__":
    main()
