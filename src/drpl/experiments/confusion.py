"""Learn which classes look alike: train plain networks on clean labels, count their mistakes."""

import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.errors import DataError, RunError
from drpl.files import load_arrays
from drpl.noise.confusion import (
    Confusion,
    Numbering,
    average_confusion,
    count_confusion,
    name_classes,
    read_confusion,
)
from drpl.randomness import rng
from drpl.runs import model
from drpl.runs.execute import execute
from drpl.runs.experiment import Execution, Experiment

NETWORKS = 2  # whose mistakes are averaged
METHOD = "cross_entropy"  # the networks that make the mistakes believe every label


def learn_confusion(
    data: DatasetSplits,
    *,
    networks: int = NETWORKS,
    seed: int = 1,
    runs: Path | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    execution: Execution | None = None,
) -> Confusion:
    """The mean confusion matrix of several networks on images they were not trained on.

    The outside classes, if there are any, are classes like the others. `runs` keeps the run
    folders.
    """
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for k in range(networks):
            task = make_task(data, k)
            folder = (runs or Path(scratch)) / f"network-{k + 1}"
            experiment = Experiment.build(
                task, method=METHOD, seed=seed + k, preset=preset, settings=settings
            )
            execute(experiment, replace(execution or Execution(), folder=folder))
            found.append(_count_run(folder, task))
    return average_confusion(found)


def collect_confusion(
    data: DatasetSplits, sources: Sequence[Path], numbering: Numbering = "files"
) -> Confusion:
    """The mean of confusion matrices: of finished runs on the test set, or from files.

    A file holds the probabilities of held-out images, or a matrix. `numbering` says how the classes
    are numbered where a file does not name them, see `noise.confusion.name_classes`.
    """
    found = [
        _count_run(path, data) if path.is_dir() else _read_file(path, data, numbering)
        for path in sources
    ]
    return average_confusion(found)


def _count_run(folder: Path, data: DatasetSplits) -> Confusion:
    """The mistakes of a run's model on the data's test set."""
    if data.test is None:
        raise DataError(
            f"{data.name} has no test set to find the mistakes of {folder} on; leave out --from, "
            "or give probabilities of held-out images"
        )
    found = model.load(folder)
    if found.classes != data.test.classes:
        raise RunError(f"the model in {folder} knows other classes than {data.name} has")
    return count_confusion(found.predict(data.test.images), data.test.labels, found.classes)


def _read_file(path: Path, data: DatasetSplits, numbering: Numbering) -> Confusion:
    """The matrix in a file, or the mistakes in its `probs` [N, C] and `labels` [N].

    Both may name their `classes` [C].
    """
    try:
        content = load_arrays(path)
        if "matrix" in content or "x" in content:
            return read_confusion(path, data, numbering)
        probs, labels = torch.from_numpy(content["probs"]), torch.from_numpy(content["labels"])
        named = [str(name) for name in content["classes"]] if "classes" in content else None
        if probs.ndim != 2:
            raise ValueError(f"probs has the shape {tuple(probs.shape)}")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"cannot read arrays probs and labels from {path}: {error}; give an .npz file with "
            "both, a matrix, or the folder of a run"
        ) from error
    try:
        names = name_classes(named or probs.shape[1], data, numbering)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return count_confusion(probs, labels.long(), names)


def make_task(data: DatasetSplits, turn: int) -> DatasetSplits:
    """All classes, inside and outside, with images held out to find mistakes on.

    These are the test set or, where there is none, every other image, by turns.
    """
    train, held = (data.train, data.test) if data.test else halve(data.train, turn)
    if data.outside is not None:
        more = halve(data.outside, turn)
        if both := sorted(set(train.classes) & set(data.outside.classes)):
            raise DataError(f"class {both[0]!r} is both in the data set and outside it; rename one")
        train, held = train.concat(more[0]), held.concat(more[1])
    return replace(data, train=replace(train, truth=None), test=held, outside=None)


def halve(dataset: Dataset, turn: int) -> tuple[Dataset, Dataset]:
    """Two parts with half of each class; odd turns change their places."""
    order = torch.randperm(len(dataset), generator=rng("confusion", "halves"))
    order = order[dataset.labels[order].argsort(stable=True)]
    first, second = (dataset.select(order[(turn + k) % 2 :: 2].sort().values) for k in (0, 1))
    return first, second


def list_mistakes(confusion: Confusion, count: int) -> Iterable[tuple[str, str, float]]:
    """The most frequent mistakes: true class, predicted class, rate."""
    errors = confusion.matrix.clone().fill_diagonal_(0)
    values, cells = errors.flatten().topk(min(count, errors.numel()))
    for value, cell in zip(values.tolist(), cells.tolist(), strict=True):
        if value > 0:
            a, b = divmod(cell, len(errors))
            yield confusion.classes[a], confusion.classes[b], value
