"""In-distribution noise: labels that move from class to class by a transition matrix.

T[c, j] is the probability that an image of true class c is given the label j.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from drpl.data.dataset import Dataset, Truth
from drpl.errors import ConfigError
from drpl.noise.kind import Noise, check_rate

OFFICIAL_SEED = 42  # the authors' data set seed; their draws know no other

Draw = Callable[[Tensor, Tensor, Generator], Tensor]  # true labels, T, generator -> given labels


def uniform(rate: float, scheme: str = "paper") -> Noise:
    """A share of each class gets a label drawn evenly from the other classes."""
    check_rate(rate)
    draws: dict[str, Draw] = {"paper": draw_exactly, "official": official_uniform}
    return by_matrix(lambda dataset: uniform_matrix(len(dataset.classes), rate), draws, scheme)


def transition(matrix: ArrayLike, scheme: str = "paper") -> Noise:
    """Labels move by any matrix [C, C] whose rows, the true classes, are distributions."""
    table = checked(torch.as_tensor(np.asarray(matrix, dtype=np.float64)))

    def for_classes(dataset: Dataset) -> Tensor:
        if len(table) != len(dataset.classes):
            raise ConfigError(
                f"the transition matrix is for {len(table)} classes, "
                f"the data set has {len(dataset.classes)}"
            )
        return table

    draws: dict[str, Draw] = {"paper": draw_exactly, "official": official_categorical}
    return by_matrix(for_classes, draws, scheme)


def matrix(path: str, scheme: str = "paper") -> Noise:
    """Labels move by a matrix from a file: .csv, .npy, or .npz with one array."""
    return transition(read_matrix(Path(path)), scheme)


def by_matrix(table: Callable[[Dataset], Tensor], draws: dict[str, Draw], scheme: str) -> Noise:
    """Noise that gives new labels to the same images."""
    if scheme not in draws:
        raise ConfigError(f"unknown noise scheme {scheme!r}; known are {', '.join(draws)}")

    def corrupt(dataset: Dataset, generator: Generator) -> Dataset:
        given = draws[scheme](dataset.labels, table(dataset), generator)
        truth = dataset.truth or Truth(dataset.labels, torch.ones(len(given), dtype=torch.bool))
        return replace(dataset, labels=given, truth=truth)

    def nominal(dataset: Dataset) -> float:
        return float((1 - table(dataset).diagonal())[dataset.labels].mean())

    return Noise(corrupt, nominal)


def draw_exactly(labels: Tensor, table: Tensor, generator: Generator) -> Tensor:
    """The paper's draw: in each class exactly the asked share moves, each to a drawn class."""
    given = labels.clone()
    for c in range(len(table)):
        members = (labels == c).nonzero().flatten()
        keep = round(float(table[c, c]) * len(members))
        moved = members[torch.randperm(len(members), generator=generator)[keep:]]
        elsewhere = table[c].clone()
        elsewhere[c] = 0
        if len(moved):
            given[moved] = torch.multinomial(elsewhere, len(moved), True, generator=generator)
    return given


def official_uniform(labels: Tensor, table: Tensor, generator: Generator) -> Tensor:
    """The authors' draw: the first int(N r) of a permutation, redrawn until the label differs."""
    draw = np.random.RandomState(OFFICIAL_SEED)
    given = labels.numpy().copy()
    count = int(len(given) * round(float(1 - table[0, 0]), 12))
    for i in draw.permutation(len(given))[:count]:
        new = given[i]
        while new == given[i]:
            new = draw.randint(len(table), dtype=np.int32)
        given[i] = new
    return torch.from_numpy(given)


def official_categorical(labels: Tensor, table: Tensor, generator: Generator) -> Tensor:
    """The authors' draw: each sample, in permuted order, independently from its class's row."""
    draw = np.random.RandomState(OFFICIAL_SEED)
    given = labels.numpy().copy()
    for i in draw.permutation(len(given)):
        given[i] = draw.choice(len(table), p=table[given[i]].numpy())
    return torch.from_numpy(given)


def uniform_matrix(classes: int, rate: float) -> Tensor:
    """(1 - r) on the diagonal, r / (C - 1) elsewhere. [C, C]"""
    table = torch.full((classes, classes), rate / (classes - 1), dtype=torch.float64)
    return table.fill_diagonal_(1 - rate)


def realised_matrix(true: Tensor, given: Tensor, classes: int) -> Tensor:
    """How often each true class carries each label, rows summing to 1. [C, C]"""
    counts = torch.bincount(true * classes + given, minlength=classes**2).double()
    counts = counts.view(classes, classes)
    return counts / counts.sum(1, keepdim=True).clamp(min=1)


def read_matrix(path: Path) -> NDArray[Any]:
    """A matrix from .csv, .npy or .npz."""
    try:
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",")
        content = np.load(path, allow_pickle=False)
        return np.asarray(content[content.files[0]] if path.suffix == ".npz" else content)
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"cannot read a matrix from {path}: {error}") from error


def checked(table: Tensor) -> Tensor:
    """The matrix, if it is square and its rows are distributions."""
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise ConfigError(f"a transition matrix is square, got shape {tuple(table.shape)}")
    if not bool(torch.isfinite(table).all()) or bool((table < 0).any()):
        raise ConfigError("a transition matrix holds probabilities; some entry is negative or NaN")
    off = (table.sum(1) - 1).abs()
    if float(off.max()) > 1e-6:
        row = int(off.argmax())
        raise ConfigError(
            f"row {row} of the transition matrix sums to {table[row].sum():.4g}, not 1"
        )
    return table / table.sum(1, keepdim=True)
