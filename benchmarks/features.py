"""The data of the paper's grid and of its ablations as vectors, the same ones for every method.

`lite0` encodes the images; of its 1,280 numbers the first 256 principal components of all images,
those from outside included, are kept, so a run takes seconds and knows nothing of the truth.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

import drpl
from drpl.data.dataset import Dataset, DatasetSplits, Truth, statistics
from drpl.data.images import TensorImages
from drpl.data.projection import find_basis
from drpl.data.sources import ReadOptions, load
from drpl.data.transforms import Normalise
from drpl.errors import DataError
from drpl.experiments.confusion import learn_confusion
from drpl.runs.experiment import Execution

ENCODER, DIMENSIONS = "lite0", 256
DEBIAN = Path("/usr/share/datasets")  # where its package has Fashion-MNIST
FOLDERS = ("imagenet32-mini",)  # read by their path, for no reader has their name


def spell(kind: str, *rates: float) -> tuple[str, ...]:
    """The noises of a kind as `--noise` takes them."""
    return tuple(f"{kind}:{rate}" for rate in rates)


UNIFORM, ALIKE = (0.2, 0.4, 0.6, 0.8), (0.1, 0.3, 0.5)  # the paper's levels
INSIDE = (*spell("nonuniform", *ALIKE), *spell("uniform", *UNIFORM))
OUTSIDE = (*spell("ood-nonuniform", *ALIKE), *spell("ood", *UNIFORM))


@dataclass(frozen=True)
class Case:
    """A data set of the grid: its noises, the classes set aside, and how much of it is read."""

    name: str
    source: str
    noises: tuple[str | None, ...]
    outside: tuple[str, ...] = ()  # classes that intruders come from
    sizes: tuple[int, int, int] = (5000, 5000, 10_000)  # to train, to test, outside; at most


CASES = (
    # Its own look-alikes, as in the paper, are for all ten classes together.
    Case("cifar10", "cifar10", (None, *spell("nonuniform", 0.1, 0.3, 0.4), *INSIDE[3:])),
    # Each of those set aside looks like one that stays.
    Case("cifar10-six", "cifar10", (None, *OUTSIDE), ("bird", "deer", "dog", "truck")),
    Case("imagenet32-mini", "imagenet32-mini", (None, *INSIDE, *OUTSIDE)),
    Case(
        "fashion-mnist",
        "fashion-mnist",
        (None, *INSIDE, *OUTSIDE),
        ("Shirt", "Coat", "Sneaker", "Bag"),
    ),
)


def read(case: Case, data_dir: Path | None = None, cache: Path | None = None) -> DatasetSplits:
    """The vectors of a case, with the truth known and no noise yet."""
    data = load_case(case, data_dir)
    return project(drpl.encode(data, ENCODER, read_options=ReadOptions(cache=cache)))


def load_case(case: Case, data_dir: Path | None = None) -> DatasetSplits:
    """The images of a case."""
    home = data_dir or Path(os.environ.get("DRPL_DATA") or "data")
    what = str(home / case.source) if case.source in FOLDERS else case.source
    options = ReadOptions(data_dir=home, outside=case.outside)
    try:
        data = load(what, options)
    except DataError:
        if not (DEBIAN / case.source).is_dir():
            raise
        data = load(what, replace(options, data_dir=DEBIAN))
    few = [
        part and part.limit(size)
        for part, size in zip((data.train, data.test, data.outside), case.sizes, strict=True)
    ]
    train, test, outside = few
    assert train is not None
    known = Truth(train.labels, torch.ones(len(train), dtype=torch.bool))
    train = replace(train, truth=known)
    return replace(data, name=case.name, train=train, test=test, outside=outside)


def project(data: DatasetSplits) -> DatasetSplits:
    """The principal components of all images; which of them are intruders plays no part."""
    every = data.train.concat(data.outside) if data.outside else data.train
    mean, std = statistics(every.images)
    basis = find_basis(replace(data, train=every, mean=mean, std=std), DIMENSIONS)
    assert basis is not None
    return show_components(replace(data, mean=mean, std=std), basis)


def show_components(data: DatasetSplits, basis: Tensor) -> DatasetSplits:
    """The data with the components of a basis [D, K] for vectors, in the scale of a network."""
    see, size = Normalise(data.mean, data.std, basis=basis), basis.shape[1]

    def show(part: Dataset) -> Dataset:
        vectors = part.images.load(torch.arange(len(part)))
        return replace(part, images=TensorImages(see(vectors, torch.empty(0))), pictures=None)

    test, outside = (part and show(part) for part in (data.test, data.outside))
    flat, unit = (0.0,) * size, (1.0,) * size
    data = replace(data, train=show(data.train), test=test, outside=outside)
    return replace(data, mean=flat, std=unit, encoding=None, origin=None)


def learn_alike(data: DatasetSplits, out: Path) -> Path:
    """The file that says which classes networks mistake for which, learnt once."""
    path = out / "confusion.npz"
    if not path.exists():
        runs = out / "confusion"
        learn_confusion(data, runs=runs, execution=Execution(quiet=True)).write(path)
    return path
