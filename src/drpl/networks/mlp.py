"""A multi-layer perceptron for vectors: embeddings, tabular features."""

from math import prod

from torch import nn


def mlp(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    """Two hidden layers with batch normalisation."""
    hidden = 4 * width
    layers: list[nn.Module] = [nn.Flatten()]
    for before in (prod(shape), hidden):
        layers += [nn.Linear(before, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))
