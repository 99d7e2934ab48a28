"""The draws of the authors' released code, number for number: legacy numpy, one fixed seed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import Tensor

from drpl.data.dataset import Dataset

SEED = 42  # the authors' data set seed; their draws know no other


def _list_rows(dataset: Dataset) -> NDArray[Any]:
    """The rows of the data set in the order of the authors' lists."""
    order = dataset.official_order
    return np.arange(len(dataset)) if order is None else order.numpy()


def _draw_rows(rate: float, dataset: Dataset, draw: RandomState) -> NDArray[Any]:
    """The authors' choice of samples: the first int(N r) of a permutation of their list."""
    samples = len(dataset)
    return _list_rows(dataset)[draw.permutation(samples)[: int(samples * round(rate, 12))]]


def _redraw(dataset: Dataset, rate: float, pick: Callable[[RandomState, int], int]) -> Tensor:
    """The labels, with another picked by its old one for each sample of the authors' choice."""
    draw = RandomState(SEED)
    given = dataset.labels.numpy().copy()
    for i in _draw_rows(rate, dataset, draw):
        given[i] = pick(draw, given[i])
    return torch.from_numpy(given)


def draw_official_uniform(dataset: Dataset, table: Tensor) -> Tensor:
    """The authors' draw: a label is redrawn until it differs from the true one."""

    def pick(draw: RandomState, old: int) -> int:
        while (new := draw.randint(len(table), dtype=np.int32)) == old:
            pass
        return int(new)

    return _redraw(dataset, float(1 - table[0, 0]), pick)


def draw_official_first(dataset: Dataset, table: Tensor) -> Tensor:
    """The authors' draw on ImageNet: the chosen samples move by their row without its diagonal."""
    moved = table.clone().fill_diagonal_(0)
    chances = (moved / moved.sum(1, keepdim=True).clamp(min=1e-300)).numpy()
    rate = float(1 - table[0, 0])
    return _redraw(dataset, rate, lambda draw, old: draw.choice(len(table), p=chances[old]))


def draw_official_categorical(dataset: Dataset, table: Tensor) -> Tensor:
    """The authors' draw on CIFAR: each sample, in permuted order, on its own from its row."""
    chances = table.numpy()
    return _redraw(dataset, 1, lambda draw, old: draw.choice(len(table), p=chances[old]))


def draw_official_outside(dataset: Dataset, outside: Dataset, rate: float) -> tuple[Tensor, Tensor]:
    """Which samples are replaced by which outside images: the first of two permutations."""
    draw = RandomState(SEED)
    rows = _draw_rows(rate, dataset, draw)
    images = draw.permutation(len(outside))[np.arange(len(rows)) % len(outside)]
    return torch.from_numpy(rows), torch.from_numpy(_list_rows(outside)[images])


def draw_official_alike(
    dataset: Dataset, outside: Dataset, chances: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    """Which samples are replaced by which outside images: for label c a class by chances[c].

    Each class gives its shuffled images in turn; theirs fails after the last, ours begins anew.
    """
    draw = RandomState(SEED)
    rows = _draw_rows(rate, dataset, draw)
    listed, classes = _list_rows(outside), len(outside.classes)
    labels = outside.labels.numpy()[listed]
    members = [listed[labels == c] for c in range(classes)]
    for own in members:
        draw.shuffle(own)
    images, used = np.zeros(len(rows), dtype=np.int64), [0] * classes
    for k, label in enumerate(dataset.labels[torch.from_numpy(rows)].tolist()):
        c = draw.choice(classes, p=chances[label].numpy())
        images[k] = members[c][used[c] % len(members[c])]
        used[c] += 1
    return torch.from_numpy(rows), torch.from_numpy(images)
