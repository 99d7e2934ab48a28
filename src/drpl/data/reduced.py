"""A data set made smaller: fewer images, or fewer pixels."""

from dataclasses import replace

import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, Truth
from drpl.data.images import Images, TensorImages
from drpl.data.outside import fitted
from drpl.data.selection import chosen


def reduced(data: DatasetSplits, size: int | None, limit: int | None) -> DatasetSplits:
    """Images of `size` pixels a side, and at most `limit` of them in each part.

    Files come in that size already; mean and deviation stay those of the whole set.
    """

    def smaller(part: Dataset) -> Dataset:
        if limit and limit < len(part):
            part = taken(part, evenly(part.labels, len(part.classes), limit))
        return replace(part, images=scaled(part.images, size)) if size else part

    return replace(
        data,
        train=smaller(data.train),
        test=data.test and smaller(data.test),
        outside=data.outside and smaller(data.outside),
    )


def evenly(labels: Tensor, classes: int, limit: int) -> Tensor:
    """The first samples of each class, as many of one as of another, in their order. [limit]"""
    turn = torch.empty_like(labels)
    for c in range(classes):
        members = (labels == c).nonzero().flatten()
        turn[members] = torch.arange(len(members))
    return turn.argsort(stable=True)[:limit].sort().values


def taken(dataset: Dataset, index: Tensor) -> Dataset:
    """Only the samples at `index`."""
    truth = dataset.truth
    if truth is not None:
        source = None if truth.source is None else truth.source[index]
        truth = Truth(truth.labels[index], truth.in_distribution[index], source)
    paths = dataset.paths and tuple(dataset.paths[i] for i in index.tolist())
    images = chosen(dataset.images, index)
    return Dataset(images, dataset.labels[index], dataset.classes, truth, paths)


def scaled(images: Images, size: int) -> Images:
    """Squares of that size; what was in memory stays there. Vectors have no size."""
    if len(images.shape) != 3:
        return images
    small = fitted(images, (images.shape[0], size, size))
    if small is images or not isinstance(images, TensorImages):
        return small
    parts = torch.arange(len(images)).split(1000)
    return TensorImages(torch.cat([small.load(part) for part in parts]))
