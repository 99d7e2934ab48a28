"""Whether a head that is trained again on decided labels finds more: python -m benchmarks.retrain

    python -m benchmarks.retrain --data-dir FOLDER [--out FOLDER]

CIFAR-10N's `aggre` labels, 20,000 images, and 3,000 images of 40 classes of imagenet32-mini (Tiny
ImageNet, see sizes.py) in which a quarter of the labels name a class that looks alike, all as
vectors of `lite0`. A reviewer who knows the truth goes through the list. Three ways to go on: the
list as it is; sorted anew by the decisions; and sorted anew by DRPL that is trained again, with the
decided labels corrected, each time a tenth of the last mark was decided.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

import drpl
from benchmarks import humans, sizes
from benchmarks.review import decide, lengthen
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.forecast import RERANK, Forecaster
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.files import write_json
from drpl.noise.transition import transition
from drpl.runs.execute import list_versions

MARKS = {"aggre": (500, 1000, 2000), "look-alike": (150, 300, 600)}
TIMES = 5  # that the head is trained again up to the last mark
FEW, SEED, BUDGET = 3000, 1, "3m"
RESULTS = Path("benchmarks/results/retrain.json")

Order = Callable[[list[int]], list[int]]  # from what was decided to what comes next


def main() -> None:
    words = argparse.ArgumentParser(description="Training again on decisions.")
    words.add_argument("--out", type=Path, default=Path("runs/retrain"), help="the runs")
    words.add_argument("--data-dir", type=Path, required=True, help="where the data sets are")
    asked = words.parse_args()
    began, found = time.monotonic(), {}
    for name, data in read(asked.data_dir):
        found[name] = measure(asked.out / name, data, MARKS[name])
        print(name, found[name], flush=True)
    about = {"command": "python -m benchmarks.retrain", "seed": SEED}
    seconds = round(time.monotonic() - began)
    write_json(RESULTS, {**about, **found, "seconds": seconds, "versions": list_versions()})


def read(data_dir: Path) -> Iterator[tuple[str, DatasetSplits]]:
    """Both data sets as vectors."""
    people = humans.read("aggre_label", ReadOptions(data_dir=data_dir), humans.IMAGES)
    yield "aggre", replace(drpl.encode(people, "lite0", mirrored=True), test=None)
    whole = sizes.read_classes(data_dir / "imagenet32-mini")
    order = torch.randperm(len(whole.train), generator=torch.Generator().manual_seed(SEED))
    train = whole.train.select(order[:FEW].sort().values)
    noise = transition(sizes.find_alike(whole))
    noisy = noise(train, torch.Generator().manual_seed(SEED))
    yield "look-alike", replace(whole, train=noisy, test=None, outside=None)


def measure(out: Path, data: DatasetSplits, marks: tuple[int, ...]) -> dict[str, Any]:
    """How many wrong labels each way has found at the marks."""
    assert data.train.truth
    wrong = data.train.truth.is_noisy(data.train.labels).numpy()
    cleaned = lengthen(clean(data, out / "first"))
    forecaster, every = Forecaster(cleaned), [int(number) for number in cleaned.issues.index]

    def learn(done: list[int]) -> list[int]:
        return forecaster.learn(decide(cleaned, done, wrong, 0.0, 0)).order

    def train_again(done: list[int]) -> list[int]:
        labels = data.train.labels.clone()
        labels[done] = data.train.true_labels[done]
        part = replace(data, train=replace(data.train, labels=labels))
        p_noisy = clean(part, out / f"after-{len(done)}").samples["p_noisy"]
        left = p_noisy[~p_noisy.index.isin(done)].sort_values(ascending=False, kind="stable")
        return [int(number) for number in left.index]

    ways: dict[str, tuple[Order, int]] = {
        "fixed order": (lambda done: every[len(done) :], max(marks)),
        "by decisions": (learn, RERANK),
        "trained again": (train_again, max(marks) // TIMES),
    }
    found: dict[str, Any] = {"samples": len(wrong), "wrong": int(wrong.sum())}
    for way, (order, step) in ways.items():
        found[way] = count(every, wrong, order, step, marks)
    return found


def count(
    first: list[int], wrong: NDArray[Any], order: Order, step: int, marks: tuple[int, ...]
) -> dict[int, int]:
    """Wrong labels found at the marks, by a list that is sorted anew after every `step`."""
    done, rest = list[int](), first
    while len(done) < max(marks):
        done += rest[:step]
        rest = order(done)
    return {mark: int(wrong[done[:mark]].sum()) for mark in marks}


def clean(data: DatasetSplits, out: Path) -> CleanedFolder:
    """What `drpl clean` finds with one seed; kept."""
    drpl.clean(data, out, budget=BUDGET, repeats=1, seed=SEED, quiet=True)
    return CleanedFolder.load(out)


if __name__ == "__main__":
    main()
