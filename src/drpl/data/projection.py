"""Fewer dimensions for vectors: few samples cannot teach a network what to make of many.

How many is found by trying: a ridge regression on the first K principal components predicts the
given labels of samples that it has not seen. Twice the best K is taken, for a network makes more of
its input than a linear classifier; between half and twice of that little changes.

Components keep their variances. Brought to equal ones, the many small components, which are mostly
noise, would drown the others: on 1,000 samples that costs up to 0.1 of AUROC.
"""

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy.linalg import eigh
from sklearn.model_selection import KFold
from torch import Tensor
from torch.nn.functional import one_hot

from drpl.data.dataset import DatasetSplits
from drpl.data.images import Images

ENOUGH = 20_000  # samples that components are found and compared by
PART = 2048  # samples that are read together
SIZES = (32, 64, 128, 256, 512, 1024)
FOLDS = 5
RIDGE = 1.0  # weight of the penalty, where vectors have unit variance on average

Directions = tuple[Tensor, Tensor]  # variances [D], largest first, and unit vectors [D, D]
Scale = tuple[tuple[float, ...], tuple[float, ...]]

# Seconds of work that every run, dry run and judgement on the same vectors would do again.
_FOUND: WeakKeyDictionary[Images, tuple[Scale, Directions]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Components:
    """The principal components of a data set's standardised vectors, largest variance first."""

    samples: Tensor  # [S, D] standardised, at most `ENOUGH`
    labels: Tensor  # [S]
    classes: int

    @classmethod
    def build(cls, data: DatasetSplits) -> "Components":
        """From the training part, evenly chosen."""
        train, count = data.train, len(data.train)
        index = torch.linspace(0, count - 1, min(count, ENOUGH)).long()
        mean, std = torch.tensor(data.mean), torch.tensor(data.std)
        parts = [(train.images.load(part) - mean) / std for part in index.split(PART)]
        return cls(torch.cat(parts), train.labels[index], len(train.classes))

    @cached_property
    def directions(self) -> Directions:
        """Where the samples vary, and how much."""
        products = (self.samples.T @ self.samples).double() / len(self.samples)
        try:
            variances, vectors = torch.linalg.eigh(products)
        except RuntimeError:
            # Fewer samples than dimensions: many variances are 0, which only the slow way can do.
            found = eigh(products.numpy(), driver="ev")
            variances, vectors = (torch.from_numpy(np.ascontiguousarray(one)) for one in found)
        # Which way a direction points is left to chance by eigh; here its largest number is > 0.
        largest = vectors.abs().argmax(0)
        vectors = vectors * vectors[largest, torch.arange(len(largest))].sign()
        return variances.flip(0).clamp(min=0), vectors.flip(1)

    def measure_agreement(self, sizes: list[int]) -> list[float]:
        """For each number of components, how many unseen given labels a ridge regression tells."""
        x = (self.samples @ _take_first(self.directions, max(sizes))).double()
        y = one_hot(self.labels, self.classes).double()
        every, right = x.T @ x, np.zeros(len(sizes))
        for known, new in KFold(FOLDS, shuffle=True, random_state=0).split(x):
            mean = y[known].mean(0)
            # What is left of all products without the few of the new: a quarter of the work.
            products, answers = every - x[new].T @ x[new], x[known].T @ (y[known] - mean)
            for k, size in enumerate(sizes):
                inner = products[:size, :size] + RIDGE * torch.eye(size, dtype=torch.float64)
                weights = torch.linalg.solve(inner, answers[:size])
                guesses = (x[new][:, :size] @ weights + mean).argmax(1)
                right[k] += int((guesses == self.labels[new]).sum())
        return list(right / len(x))


def choose_dimensions(data: DatasetSplits) -> int | None:
    """How many principal components suit the number of samples; None: all numbers."""
    (width,) = data.train.images.shape
    sizes = [size for size in SIZES if size < width]
    if not sizes or len(data.train) < 2 * FOLDS:
        return None
    components = Components.build(data)
    shares = components.measure_agreement([*sizes, width])
    _FOUND[data.train.images] = (data.mean, data.std), components.directions
    return [*sizes[1:], None, None][int(np.argmax(shares))]


def find_basis(data: DatasetSplits, dimensions: int | None) -> Tensor | None:
    """What brings standardised vectors to their first principal components. [D, K]

    None where all numbers are used as they are.
    """
    shape = data.train.images.shape
    if dimensions is None or len(shape) != 1 or dimensions >= shape[0]:
        return None
    return _take_first(_find_directions(data), dimensions)


def _find_directions(data: DatasetSplits) -> Directions:
    """Those of the training part; found once for the same images in the same scale."""
    images, scale = data.train.images, (data.mean, data.std)
    known = _FOUND.get(images)
    if known is None or known[0] != scale:
        known = _FOUND[images] = scale, Components.build(data).directions
    return known[1]


def _take_first(directions: Directions, dimensions: int) -> Tensor:
    """The first components, scaled together such that their mean variance is 1. [D, K]"""
    variances, vectors = directions
    scale = variances[:dimensions].mean().sqrt().clamp(min=1e-6)
    basis: Tensor = vectors[:, :dimensions] / scale
    return basis.float()
