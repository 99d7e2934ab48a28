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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import Images, concat, fit, load_batches
from drpl.data.sources import ReadOptions, load
from drpl.errors import ConfigError, DataError
from drpl.files import write_atomic
from drpl.networks.build import CUSTOM, Builder
from drpl.networks.depth import features_by_depth, members
from drpl.randomness import derive, rng
from drpl.report.probe_figure import UNTRAINED, by_run, drawn
from drpl.report.table import as_csv, cell
from drpl.runs import model as models
from drpl.runs.folder import Result
from drpl.runs.model import Model

STRENGTH = 0.1  # C of the logistic regression: scikit-learn's inverse weight of its penalty
STEPS = 1000  # of its solver, at most
FOLDS = 4  # of which each is tested once, where the target has no test part
BATCH = 256
COLUMNS = ("run", "method", "noise", "rate", "seed", "block", "features", "accuracy")

Row = dict[str, Any]
Shape = tuple[int, ...]


Fold = tuple[Tensor, Tensor]  # the samples to learn from, and those to be tested on


@dataclass(frozen=True)
class Task:
    """Labelled images, and how they are parted: once, or so that each is tested once."""

    images: Images
    labels: Tensor  # [N]
    classes: tuple[str, ...]
    folds: tuple[Fold, ...]


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
    names, chosen = tuple(classes), read_options or ReadOptions()

    @cache
    def task(shape: Shape) -> Task:
        return prepared(read(target, chosen, shape), names, limit, shape, seed)

    rows: list[Row] = []
    shapes: list[Shape] = []
    blank: dict[Any, list[Row]] = {}  # an untrained network for each kind that there is
    for result in results:
        about = models.read_json(result.folder / "model.json")
        own = network if about["network"] == CUSTOM else None
        model = models.load(result.folder, own)
        shapes.append(model.shape)
        head = {"run": str(result.folder), **cell(result)}
        rows += probed(model, task(model.shape), head)
        kind = (about["network"], about["width"], model.shape, model.view)
        if kind not in blank:
            head = {"run": "", "method": UNTRAINED, "noise": "", "rate": np.nan, "seed": seed}
            blank[kind] = probed(untrained(result.folder, seed, own), task(model.shape), head)
    for more in blank.values():
        rows += more
    table = pd.DataFrame(rows)[list(COLUMNS)]
    first = task(shapes[0])
    notes = tuple(remarks(results, first.classes, rows))
    if out is not None:
        png, svg = drawn(table, titled(target, first), 100 / len(first.classes))
        for name, content in (("csv", as_csv(table)), ("png", png), ("svg", svg)):
            write_atomic(Path(out) / f"probes.{name}", content)
    return Probes(table, notes)


def titled(target: str | DatasetSplits, task: Task) -> str:
    """The target in a few words."""
    name = Path(target).name if isinstance(target, str) else target.name
    return f"{len(task.classes)} classes of {name}"


def read(target: str | DatasetSplits, read_options: ReadOptions, shape: Shape) -> DatasetSplits:
    """The target; files are decoded in the size that the network wants."""
    if not isinstance(target, str):
        return target
    return load(
        target, replace(read_options, size=shape[1] if len(shape) == 3 else None, limit=None)
    )


def prepared(
    data: DatasetSplits, classes: Sequence[str], limit: int | None, shape: Shape, seed: int
) -> Task:
    """The classes asked for in the shape asked for, and what is tested on what."""
    parts = [part.limit(limit) if limit else part for part in of_classes(data, classes) if part]
    labels, count = torch.cat([part.labels for part in parts]), len(parts[0])
    found = parts[0].images.shape
    if found != shape and not (len(found) == len(shape) == 3 and {found[0], shape[0]} <= {1, 3}):
        raise DataError(
            f"the samples of {data.name} have the shape {found}, which cannot be brought to the "
            f"{shape} that a run was trained on; images fit images, and vectors must be as long"
        )
    if len(parts) == 2:
        images = concat(parts[0].images, parts[1].images)
        folds: tuple[Fold, ...] = ((torch.arange(count), torch.arange(count, len(labels))),)
    else:
        images, folds = parts[0].images, folded(parts[0], seed)
    return Task(fit(images, shape), labels, parts[0].classes, folds)


def of_classes(data: DatasetSplits, names: Sequence[str]) -> tuple[Dataset, Dataset | None]:
    """Both parts with only these classes and true labels; the outside has no test part."""
    train, test = data.train, data.test
    if any(name not in train.classes for name in names) and data.outside:
        train, test = train.with_true_labels().concat(data.outside), None
    train.check_names(names)
    if len(names or train.classes) < 2:
        raise DataError("at least two classes are needed to tell apart; name more")

    def part(dataset: Dataset) -> Dataset:
        return dataset.with_true_labels().select_classes(names or train.classes)

    return part(train), test and part(test)


def folded(dataset: Dataset, seed: int) -> tuple[Fold, ...]:
    """Parts with the same share of every class, each tested after learning from the others."""
    order = torch.randperm(len(dataset), generator=rng(seed, "probe"))
    turn = torch.empty(len(dataset), dtype=torch.int64)
    for c, name in enumerate(dataset.classes):
        mine = order[dataset.labels[order] == c]
        if len(mine) < FOLDS:
            raise DataError(
                f"class {name!r} has {len(mine)} images; to probe it takes a test part, or at "
                f"least {FOLDS} images a class"
            )
        turn[mine] = torch.arange(len(mine)) % FOLDS
    return tuple(
        ((turn != k).nonzero().flatten(), (turn == k).nonzero().flatten()) for k in range(FOLDS)
    )


def untrained(folder: Path, seed: int, network: Builder | None) -> Model:
    """A network like the run's, with the weights that it might have begun with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "untrained"))
        return models.untrained(folder, network)


def probed(model: Model, task: Task, head: Row) -> list[Row]:
    """A row a block; of networks that answer together, the mean of their probes."""
    each = [
        [(x.shape[1], *judged(x, task)) for x in features(net, task.images, model)]
        for net in members(model.net)
    ]
    return [
        {
            **head,
            "block": number,
            "features": found[0][0],
            "accuracy": 100 * float(np.mean([accuracy for _, accuracy, _ in found])),
            "converged": all(done for _, _, done in found),
        }
        for number, found in enumerate(zip(*each, strict=True), 1)
    ]


def features(net: nn.Module, images: Images, model: Model) -> list[NDArray[Any]]:
    """The features of all images after each block. [N, K] each"""
    batches = [
        features_by_depth(net, model.view(pixels, torch.empty(len(index), 0)))
        for index, pixels in load_batches(images, list(torch.arange(len(images)).split(BATCH)))
    ]
    return [torch.cat(block).numpy() for block in zip(*batches, strict=True)]


def judged(x: NDArray[Any], task: Task) -> tuple[float, bool]:
    """Share of tested images that a logistic regression names rightly; whether it was finished."""
    right, finished, y = 0, True, task.labels.numpy()
    for train, test in task.folds:
        judge = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=STEPS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # told in the notes
            judge.fit(x[train], y[train])
        right += int((judge.predict(x[test]) == y[test]).sum())
        finished &= bool(judge[-1].n_iter_.max() < STEPS)
    return right / sum(len(test) for _, test in task.folds), finished


def remarks(
    results: Sequence[Result], classes: tuple[str, ...], rows: Sequence[Row]
) -> Iterable[str]:
    """What makes the numbers less than they seem."""
    for result in results:
        if both := sorted(set(result.summary["classes"]) & set(classes)):
            yield f"{result.folder} was trained on {both[0]!r} too, which is no other class for it"
        with np.load(result.folder / "samples.npz") as arrays:
            if "in_distribution" in arrays and not arrays["in_distribution"].all():
                yield (
                    f"{result.folder} was shown images from outside as noise; "
                    "if the target has them too, it may know some"
                )
    if unfinished := sum(not row["converged"] for row in rows):
        yield f"{unfinished} of {len(rows)} classifiers were stopped after {STEPS} steps"


def side_by_side(table: pd.DataFrame) -> str:
    """A line a run, a column a block."""
    blocks = sorted(table.block.unique())
    lines = [f"{'accuracy (%) after block':<44}" + "".join(f"{block:>8}" for block in blocks)]
    for rows in by_run(table):
        first = rows.iloc[0]
        name = f"{first.method}, {first.noise}, seed {first.seed}" if first.run else first.method
        lines.append(f"{name:<44}" + "".join(f"{value:>8.2f}" for value in rows.accuracy))
    return "\n".join(lines)
