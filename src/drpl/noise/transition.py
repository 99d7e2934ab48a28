"""In-distribution noise: labels that move from class to class by a transition matrix.

T[c, j] is the probability that an image of true class c is given the label j.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix
from torch import Generator, Tensor

from drpl.data.dataset import Dataset
from drpl.errors import ConfigError
from drpl.files import load_arrays
from drpl.noise.kind import Change, Noise, Part, Quota, check_rate
from drpl.noise.official import draw_official_categorical, draw_official_uniform

Official = Callable[[Dataset, Tensor], Tensor]  # data set, T -> given labels [N]


def uniform(rate: float, scheme: str = "paper") -> Noise:
    """A share of each class gets a label drawn evenly from the other classes."""
    check_rate(rate)

    def table(dataset: Dataset) -> Tensor:
        classes = len(dataset.classes)
        even = torch.full((classes, classes), rate / (classes - 1), dtype=torch.float64)
        return even.fill_diagonal_(1 - rate)

    return make_transition_noise(table, draw_official_uniform, scheme)


def transition(matrix: ArrayLike, scheme: str = "paper") -> Noise:
    """Labels move by any matrix [C, C] whose rows, the true classes, are distributions."""
    table = check_matrix(torch.as_tensor(np.asarray(matrix, dtype=np.float64)))

    def for_classes(dataset: Dataset) -> Tensor:
        if len(table) != len(dataset.classes):
            raise ConfigError(
                f"the transition matrix is for {len(table)} classes, "
                f"the data set has {len(dataset.classes)}"
            )
        return table

    return make_transition_noise(for_classes, draw_official_categorical, scheme)


def matrix(path: str, scheme: str = "paper") -> Noise:
    """Labels move by a matrix from a file: .csv, .npy, or .npz with one array."""
    return transition(read_matrix(Path(path)), scheme)


def make_transition_noise(
    table: Callable[[Dataset], Tensor], official: Official, scheme: str
) -> Noise:
    """Noise that gives new labels to the same images."""

    def draw(dataset: Dataset, quota: Quota, generator: Generator) -> Change:
        if scheme == "official":
            given = official(dataset, table(dataset))
            rows = (given != dataset.labels).nonzero().flatten()
            return Change(rows, given[rows])
        elsewhere = table(dataset).clone().fill_diagonal_(0)  # the asked share moves, all of it
        return Change(*quota.draw(dataset.labels, elsewhere, generator))

    def rates(dataset: Dataset) -> Tensor:
        return (1 - table(dataset).diagonal()).round(decimals=12)  # 1 - (1 - r) is r again

    return Noise((Part(draw, rates, scheme=scheme),))


def transition_matrix(true: Tensor, given: Tensor, classes: int) -> Tensor:
    """How often each true class carries each label: rows sum to 1, or to 0 if absent. [C, C]"""
    if not len(true):  # scikit-learn refuses to count nothing
        return torch.zeros(classes, classes, dtype=torch.float64)
    shares = confusion_matrix(true.numpy(), given.numpy(), labels=range(classes), normalize="true")
    return torch.from_numpy(shares)


def read_matrix(path: Path) -> NDArray[Any]:
    """A matrix from .csv, .npy or .npz."""
    try:
        if path.suffix == ".csv":
            if not path.read_text("utf-8").strip():  # numpy would only warn
                raise ValueError("it is empty")
            return np.loadtxt(path, delimiter=",")
        first, *_ = load_arrays(path).values()
        return np.asarray(first, dtype=np.float64)
    except Exception as error:  # a damaged file makes its readers raise almost anything
        raise ConfigError(f"cannot read a matrix from {path}: {error}") from error


def check_matrix(table: Tensor) -> Tensor:
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
