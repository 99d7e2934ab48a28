"""The same tuning for every method on vectors: python -m benchmarks.tune_vectors --data-dir FOLDER

Vectors of the encoder `lite0` of CIFAR-10's TEST images, of which one half is trained on and the
other one held out, so no training image of any other benchmark is seen. Each method is tried with
the settings of its preset `small` in a share of their epochs and with a share of their rates, the
same pairs for all. What is finished is kept in the folder of `--out` and not done again.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import drpl
from benchmarks.features import show_components
from drpl.config.compose import Tree, merge
from drpl.config.from_data import find_schedules, suit_to_vectors
from drpl.data.dataset import DatasetSplits
from drpl.data.projection import choose_dimensions, find_basis
from drpl.data.sources import ReadOptions, load
from drpl.files import write_atomic, write_json
from drpl.noise.inject import corrupt
from drpl.registry import METHODS
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions
from drpl.runs.experiment import compose_for, load_schema

SEED, HALF = 11, 5000
NOISES = ("uniform:0.4", "nonuniform:0.3")
TRIED = (  # shares of the epochs and of the rates
    *((1 / 3, 1.0), (1 / 3, 0.4), (1 / 6, 1.0), (1 / 6, 0.4)),
    *((1 / 12, 1.0), (2 / 3, 1.0)),  # the best lay at an end of these for every method
)
RESULTS = Path("benchmarks/results/vectors-tuning")
# Settings that are numbers of epochs, or epochs themselves.
EPOCHS = {
    *("begin", "window", "delay", "cooling", "ramp", "select_from", "positive_from"),
    *("prune_from", "prune_every", "learn_from", "learn_until", "decay_ramp"),
    *("agree_from", "remember_from"),
}
KEPT = {"momentum"}  # the share of each sample's table that an epoch leaves
MOVING = {"label_rate", "u_rate", "v_rate"}  # of what each sample learns once an epoch


def main() -> None:
    words = argparse.ArgumentParser(description="Tune every method on vectors alike.")
    words.add_argument("--out", type=Path, default=Path("runs/vectors-tuning"), help="the runs")
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--cache", type=Path, help="where features are kept")
    words.add_argument("--methods", nargs="+", default=[m for m in METHODS if m != "drpl"])
    asked = words.parse_args()
    clean = read(asked.data_dir, asked.cache)
    sets = {noise: project(corrupt(clean, noise, SEED)[0]) for noise in NOISES}
    rows = []
    for method, (effort, rate), noise in product(asked.methods, TRIED, sets):
        data = sets[noise]
        suited = suit_to_vectors(load_schema(method), len(data.train), len(data.train.classes))
        result = drpl.train(
            data,
            method=method,
            preset="vectors",
            settings=merge(suited, scale(method, effort, rate)),
            seed=SEED,
            out=asked.out / noise.replace(":", "-") / method / f"{effort:.2f}-{rate}",
            quiet=True,
        )
        rows.append({"method": method, "noise": noise, "effort": round(effort, 2), "rate": rate})
        rows[-1] |= {
            "accuracy": result.accuracy["last"],
            "auroc": (result.detection or {}).get("auroc"),
            "seconds": result.summary["seconds"],
        }
        print(*rows[-1].values(), flush=True)
    write(pd.DataFrame(rows))


def read(data_dir: Path | None, cache: Path | None, encoder: str = "lite0") -> DatasetSplits:
    """CIFAR-10's test images as vectors, half of them to train on."""
    data = load("cifar10", ReadOptions(data_dir=data_dir))
    assert data.test is not None
    halves = (data.test.select(torch.arange(k, k + HALF)) for k in (0, HALF))
    few = replace(data, train=next(halves), test=next(halves))
    return drpl.encode(few, encoder, read_options=ReadOptions(cache=cache))


def project(data: DatasetSplits) -> DatasetSplits:
    """The principal components that a run would find and see, found once for all runs."""
    basis = find_basis(data, choose_dimensions(data))
    assert basis is not None
    return show_components(data, basis)


def scale(method: str, effort: float, rate: float) -> Tree:
    """The settings of the preset `small` with a share of their epochs and rates."""
    config = compose_for(method, ["small"], {})
    return dict(_scale(config.model_dump(mode="json"), effort, rate, find_schedules(type(config))))


def _scale(
    tree: dict[str, Any], effort: float, rate: float, schedules: list[str]
) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if name in schedules:
            lr = {
                1 + round((first - 1) * effort): round(at * rate, 10) for first, at in value["lr"]
            }
            scaled = {
                "epochs": max(2, round(value["epochs"] * effort)),
                "lr": [list(pair) for pair in lr.items()],
            }
            if value["cosine"]:
                after, least = value["cosine"]
                scaled["cosine"] = [round(after * effort), least]
            yield name, scaled
        elif isinstance(value, dict):
            yield name, dict(_scale(value, effort, rate, schedules))
        elif name in EPOCHS and value:  # none stays none
            yield name, type(value)(max(2 if name == "cooling" else 1, round(value * effort)))
        elif name in KEPT:
            yield name, round(value ** (1 / effort), 4)
        elif name in MOVING:  # there are fewer epochs to move in
            yield name, value / effort
        elif name in ("start", "complements"):
            yield name, value


def write(rows: pd.DataFrame) -> None:
    """All rows, and of each method what was best: the mean of accuracy and AUROC, in %.

    Rows of methods that were not asked for stay as they are.
    """
    path = RESULTS.with_suffix(".csv")
    if path.exists():
        before = pd.read_csv(path)
        rows = pd.concat([before[~before["method"].isin(rows["method"])], rows])
    write_atomic(path, to_csv(rows))
    about = {"command": "python -m benchmarks.tune_vectors", "seed": SEED, "encoder": "lite0"}
    write_json(RESULTS.with_suffix(".json"), {**about, "versions": list_versions()})
    rows["score"] = (rows["accuracy"] + 100 * rows["auroc"].fillna(0)) / 2
    means = rows.groupby(["method", "effort", "rate"])[["accuracy", "auroc", "score"]].mean()
    print(means.sort_values("score").groupby("method").tail(1).to_string())


if __name__ == "__main__":
    main()
