"""Networks for vectors: a multi-layer perceptron, and a linear classifier."""

from math import prod

from torch import nn

DROPOUT = 0.3  # vectors are not augmented: without it wrong labels are soon memorised


def mlp(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    """Two hidden layers with batch normalisation and dropout."""
    hidden = 4 * width
    layers: list[nn.Module] = [nn.Flatten()]
    for before in (prod(shape), hidden):
        layers += [nn.Linear(before, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU()]
        layers.append(nn.Dropout(DROPOUT))
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


def linear(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    """A linear classifier, which has no `width`."""
    return nn.Sequential(nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(prod(shape), classes))
