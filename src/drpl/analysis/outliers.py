"""Images that look like none of the classes, and classes that look like one.

Both are read off the labels of an image's nearest others. The support of a class is the mean of
their similarities, counted as nothing where they have another label: it is low if the neighbours
are far, and if they do not agree. Distances alone miss strangers that resemble each other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from drpl.analysis.encoded import EncodedImages
from drpl.detection.neighbours import find_nearest

NEIGHBOURS = 20
OUTLYING = 0.7  # score from which on an image is listed
ALIKE = 0.7  # share from which on two classes are named
FEWEST = 10  # images of a class that can be compared
CLEAR = 0.05  # share of neighbours by which a class must stand out from the others


@dataclass(frozen=True)
class AlikeClasses:
    """Two classes whose images are each other's neighbours nearly as often as their own."""

    first: str
    second: str
    share: float  # 1: as often as their own; 0: as any other class


@dataclass(frozen=True)
class Neighbourhood:
    """What is known of the training images by their nearest others among them."""

    score: Tensor  # [N] 0: supported as usual, 1: not at all
    best: Tensor  # [N] the class with most support
    alike: list[AlikeClasses]  # most alike first

    @property
    def outliers(self) -> Tensor:
        """The images that look like none of the classes, worst first."""
        order = self.score.argsort(descending=True, stable=True)
        return order[self.score[order] >= OUTLYING]


def look_around(images: EncodedImages) -> Neighbourhood:
    """Score all training images, and compare their classes."""
    train = images.data.train
    labels, classes = train.labels, len(train.classes)
    if len(train) < 2:
        return Neighbourhood(torch.zeros(len(train)), labels, [])
    cosines, near = find_nearest(images.vectors[: len(train)], NEIGHBOURS)
    support, best = _measure_support(cosines, labels[near], classes)
    score = 1 - support / support.median().clamp(min=1e-6)
    shares = _count_neighbours(labels, labels[near], classes)
    alike = _find_alike(shares, labels.bincount(minlength=classes))
    named = [AlikeClasses(train.classes[a], train.classes[b], share) for a, b, share in alike]
    return Neighbourhood(score.clamp(min=0), best, named)


def _measure_support(cosines: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The support of the class that has most of it, and which that is. Both [N]"""
    support = torch.zeros(len(labels), classes)
    support.scatter_add_(1, labels, cosines.clamp(min=0))
    highest, best = (support / labels.shape[1]).max(1)
    return highest, best


def _count_neighbours(labels: Tensor, near: Tensor, classes: int) -> Tensor:
    """The share of each class among the neighbours of a class's images. [C, C]"""
    counts = torch.zeros(classes, classes, dtype=torch.float64)
    rows = labels[:, None].expand_as(near).flatten()
    counts.index_put_((rows, near.flatten()), torch.ones(1, dtype=torch.float64), accumulate=True)
    return counts / counts.sum(1, keepdim=True).clamp(min=1)


def _find_alike(shares: Tensor, counts: Tensor) -> list[tuple[int, int, float]]:
    """Pairs of classes and how much they are alike, for those that are.

    Shares are compared as if all classes were of one size, and with the usual share of another
    class taken off: wrong labels spread neighbours over all classes.
    """
    whole = (counts >= FEWEST).nonzero().flatten()
    if len(whole) < 3:  # of two classes none is usual
        return []
    rates = shares[whole][:, whole] / counts[whole]
    rates = rates / rates.sum(1, keepdim=True).clamp(min=1e-12)
    own = rates.diagonal()
    others = rates.clone()
    others[one_hot(torch.arange(len(whole))).bool()] = torch.nan
    usual = others.nanmedian(1).values
    excess = (rates - usual[:, None]) / (own - usual).clamp(min=CLEAR)[:, None]
    both = torch.minimum(excess, excess.T)  # each of the two must look like the other
    a, b = (both.triu(1) >= ALIKE).nonzero(as_tuple=True)
    order = both[a, b].argsort(descending=True, stable=True)
    found = zip(whole[a[order]], whole[b[order]], both[a, b][order].clamp(max=1), strict=True)
    return [(int(i), int(j), float(share)) for i, j, share in found]
