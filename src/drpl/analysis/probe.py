"""What a trained network knows at each depth: linear probes on classes that it was not shown."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import Images, concat, fit
from drpl.data.prefetch import load_batches
from drpl.data.sources import ReadOptions, load
from drpl.errors import ConfigError, DataError
from drpl.files import check_apart, read_arrays, read_json, write_atomic
from drpl.networks.build import CUSTOM, Builder
from drpl.networks.depth import extract_features, list_members
from drpl.randomness import derive
from drpl.report.probe_figure import UNTRAINED, draw_probes, split_by_run
from drpl.report.table import describe_cell, to_csv
from drpl.runs import model as models
from drpl.runs.folder import Result
from drpl.runs.model import Model
from drpl.runs.records import ModelRecord

STRENGTH = 0.1  # C of the logistic regression: scikit-learn's inverse weight of its penalty
STEPS = 1000  # of its solver, at most
FOLDS = 4  # of which each is tested once, where the target has no test part
BATCH = 256
COLUMNS = ("run", "method", "noise", "rate", "seed", "block", "features", "accuracy")

Row = dict[str, Any]
Shape = tuple[int, ...]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]  # the samples to learn from, and those to test on


@dataclass(frozen=True)
class Task:
    """Labelled images, and how they are parted: once, or so that each is tested once."""

    images: Images
    labels: Tensor  # [N]
    classes: tuple[str, ...]
    folds: list[Fold]


@dataclass(frozen=True)
class Probes:
    """A row for each run and block, and what should be known of them."""

    table: pd.DataFrame
    notes: tuple[str, ...]


def probe(
    runs: Iterable[Path | str],
    target: str | DatasetSplits,
    *,
    classes: Iterable[str] = (),
    limit: int | None = None,
    read_options: ReadOptions | None = None,
    seed: int = 1,
    out: Path | str | None = None,
    network: Builder | None = None,
) -> Probes:
    """Accuracy of a linear classifier on the features after each block, for each run.

    It learns the classes of `target`, or those named in `classes`, which may be outside ones, and
    is tested on the target's test part, or else by cross-validation. The networks stay as they
    are. An untrained network of each shape stands beside them. With `out` a table and a
    figure are written there. `network` is the user's own, for runs that have one.
    """
    results = [Result.load(run) for run in dict.fromkeys(map(Path, runs))]
    if not results:
        raise ConfigError("nothing to probe: give the folder of at least one run")
    if out is not None:
        sources = {result.source for result in results}
        check_apart(Path(out), *sources, target if isinstance(target, str) else None)
    names, chosen = tuple(classes), read_options or ReadOptions()

    @cache
    def make_task(shape: Shape) -> Task:
        return prepare_task(_read_target(target, chosen, shape), names, limit, shape, seed)

    rows: list[Row] = []
    tasks: list[Task] = []
    blank: dict[Any, list[Row]] = {}  # an untrained network for each kind that there is
    for result in results:
        about = read_json(result.folder / "model.json", ModelRecord)
        own = network if about["network"] == CUSTOM else None
        model = models.load(result.folder, own)
        tasks.append(make_task(model.shape))
        rows += _probe_model(model, tasks[-1], {"run": str(result.folder), **describe_cell(result)})
        kind = (about["network"], about["width"], model.shape, model.transform)
        if kind not in blank:
            head = {"run": "", "method": UNTRAINED, "noise": "", "rate": np.nan, "seed": seed}
            untrained = _build_untrained(result.folder, seed, own)
            blank[kind] = _probe_model(untrained, tasks[-1], head)
    rows += [row for kind in blank.values() for row in kind]
    table = pd.DataFrame(rows)[list(COLUMNS)]
    known = tasks[0].classes
    if out is not None:
        name = Path(target).name if isinstance(target, str) else target.name
        picture = draw_probes(table, f"{len(known)} classes of {name}", 100 / len(known))
        picture.write(Path(out))
        write_atomic(Path(out) / "probes.csv", to_csv(table))
    return Probes(table, tuple(_collect_notes(results, known, rows)))


def _read_target(
    target: str | DatasetSplits, read_options: ReadOptions, shape: Shape
) -> DatasetSplits:
    """The target; files are decoded in the size that the network wants."""
    if not isinstance(target, str):
        return target
    size = shape[1] if len(shape) == 3 else None
    return load(target, replace(read_options, size=size, limit=None))


def prepare_task(
    data: DatasetSplits, classes: Sequence[str], limit: int | None, shape: Shape, seed: int
) -> Task:
    """The classes asked for in the shape asked for, and what is tested on what."""
    parts = [part.limit(limit) if limit else part for part in select_parts(data, classes) if part]
    labels, count = torch.cat([part.labels for part in parts]), len(parts[0])
    found = parts[0].images.shape
    if found != shape and not (len(found) == len(shape) == 3 and {found[0], shape[0]} <= {1, 3}):
        raise DataError(
            f"the samples of {data.name} have the shape {found}, which cannot be brought to the "
            f"{shape} that a run was trained on; images fit images, and vectors must be as long"
        )
    images = parts[0].images
    if len(parts) == 2:
        images = concat(images, parts[1].images)
        folds = [(np.arange(count), np.arange(count, len(labels)))]
    else:
        folds = make_folds(parts[0], seed)
    return Task(fit(images, shape), labels, parts[0].classes, folds)


def select_parts(data: DatasetSplits, names: Sequence[str]) -> tuple[Dataset, Dataset | None]:
    """Both parts with only these classes and true labels; the outside has no test part."""
    train, test = data.train, data.test
    if any(name not in train.classes for name in names) and data.outside:
        train, test = train.with_true_labels().concat(data.outside), None
    train.check_names(names)
    if len(names or train.classes) < 2:
        raise DataError("at least two classes are needed; name more")

    def select(dataset: Dataset) -> Dataset:
        return dataset.with_true_labels().select_classes(names or train.classes)

    return select(train), test and select(test)


def make_folds(dataset: Dataset, seed: int) -> list[Fold]:
    """Parts with the same share of every class, each tested after learning from the others."""
    counts = torch.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
    for name, count in zip(dataset.classes, counts, strict=True):
        if count < FOLDS:
            raise DataError(
                f"class {name!r} has {count} images; to probe it takes a test part, or at "
                f"least {FOLDS} images a class"
            )
    state = derive(seed, "probe") % 2**32  # what scikit-learn takes
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=state)
    return list(folds.split(dataset.labels, dataset.labels))


def _build_untrained(folder: Path, seed: int, network: Builder | None) -> Model:
    """A network like the run's, with the weights that it might have begun with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "untrained"))
        return models.load_untrained(folder, network)


def _probe_model(model: Model, task: Task, head: Row) -> list[Row]:
    """A row a block; of networks that answer together, the mean of their probes."""
    members = [
        [(x.shape[1], *_score_features(x, task)) for x in _compute_features(net, task, model)]
        for net in list_members(model.net)
    ]
    return [
        {
            **head,
            "block": number,
            "features": found[0][0],
            "accuracy": 100 * float(np.mean([accuracy for _, accuracy, _ in found])),
            "converged": all(done for _, _, done in found),
        }
        for number, found in enumerate(zip(*members, strict=True), 1)
    ]


def _compute_features(net: nn.Module, task: Task, model: Model) -> list[NDArray[Any]]:
    """The features of all images after each block. [N, K] each"""
    batches = [
        extract_features(net, model.transform(pixels, torch.empty(len(index), 0)))
        for index, pixels in load_batches(
            task.images, list(torch.arange(len(task.images)).split(BATCH))
        )
    ]
    return [torch.cat(block).numpy() for block in zip(*batches, strict=True)]


def _score_features(x: NDArray[Any], task: Task) -> tuple[float, bool]:
    """Accuracy of a logistic regression on the tested images, and whether it converged."""
    right, converged, y = 0, True, task.labels.numpy()
    for train, test in task.folds:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=STEPS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the notes say so
            model.fit(x[train], y[train])
        right += int((model.predict(x[test]) == y[test]).sum())
        converged &= bool(model[-1].n_iter_.max() < STEPS)
    return right / sum(len(test) for _, test in task.folds), converged


def _collect_notes(
    results: Sequence[Result], classes: tuple[str, ...], rows: Sequence[Row]
) -> Iterable[str]:
    """What makes the numbers less than they seem."""
    for result in results:
        if both := sorted(set(result.summary["classes"]) & set(classes)):
            yield f"{result.folder} was trained on {both[0]!r} too, which is no other class for it"
        samples = read_arrays(result.folder / "samples.npz")
        if not samples.get("in_distribution", np.ones(1)).all():
            yield (
                f"{result.folder} was shown images from outside as noise; "
                "if the target has them too, it may know some"
            )
    if unfinished := sum(not row["converged"] for row in rows):
        yield f"{unfinished} of {len(rows)} classifiers were stopped after {STEPS} steps"


def format_probes(table: pd.DataFrame) -> str:
    """A line a run, a column a block."""
    blocks = sorted(table.block.unique())
    lines = [f"{'accuracy (%) after block':<44}" + "".join(f"{block:>8}" for block in blocks)]
    for rows in split_by_run(table):
        first = rows.iloc[0]
        name = f"{first.method}, {first.noise}, seed {first.seed}" if first.run else first.method
        lines.append(f"{name:<44}" + "".join(f"{value:>8.2f}" for value in rows.accuracy))
    return "\n".join(lines)
