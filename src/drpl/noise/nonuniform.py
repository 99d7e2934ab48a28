"""Non-uniform in-distribution noise: a label moves to a class that looks like its own."""

import torch
from torch import Tensor

from drpl.data.dataset import Dataset
from drpl.noise.cifar import find_flips
from drpl.noise.confusion import Confusion
from drpl.noise.kind import Noise, NoiseContext, check_rate
from drpl.noise.official import draw_official_categorical, draw_official_first
from drpl.noise.transition import make_transition_noise


def nonuniform(rate: float, around: NoiseContext, scheme: str = "paper") -> Noise:
    """A share of each class that has look-alikes gets the label of one of them.

    CIFAR-10 and CIFAR-100 have fixed ones; any other set follows its confusion matrix.
    """
    check_rate(rate)

    def table(dataset: Dataset) -> Tensor:
        moves = find_flips(dataset.classes)
        if moves is None:
            return _error_matrix(dataset, around.require_confusion("nonuniform", "DATA"), rate)
        return _flip_matrix(len(dataset.classes), moves, rate)

    def official(dataset: Dataset, matrix: Tensor) -> Tensor:
        draw = (
            draw_official_first
            if find_flips(dataset.classes) is None
            else draw_official_categorical
        )
        return draw(dataset, matrix)

    return make_transition_noise(table, official, scheme)


def _flip_matrix(classes: int, moves: dict[int, int], rate: float) -> Tensor:
    """1 - r stays and r moves in the classes that have a move; the others stay. [C, C]"""
    table = torch.eye(classes, dtype=torch.float64)
    for a, b in moves.items():
        table[a, a], table[a, b] = 1 - rate, rate
    return table


def _error_matrix(dataset: Dataset, confusion: Confusion, rate: float) -> Tensor:
    """1 - r stays and r moves as networks err: the matrix without its diagonal. [C, C]"""
    # The diagonal goes before rows are normalised, or less than r would move.
    errors = confusion.among(dataset.classes, dataset.classes).fill_diagonal_(0)
    table = rate * errors / errors.sum(1, keepdim=True)
    return table.fill_diagonal_(1 - rate)
