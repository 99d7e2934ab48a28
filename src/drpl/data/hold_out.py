"""Whole classes taken out of a data set, to be a source of out-of-distribution noise."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, Truth
from drpl.data.selection import Joined, chosen
from drpl.errors import DataError, did_you_mean


def narrowed(dataset: Dataset, index: Tensor, keep: Tensor) -> Dataset:
    """The samples at `index`, whose labels are all among the classes `keep`."""
    position = torch.full((len(dataset.classes),), -1)
    position[keep] = torch.arange(len(keep))
    truth = dataset.truth
    if truth is not None:
        truth = Truth(position[truth.labels[index]], truth.in_distribution[index])
    paths = dataset.paths and tuple(dataset.paths[i] for i in index.tolist())
    classes = tuple(dataset.classes[c] for c in keep.tolist())
    images = chosen(dataset.images, index)
    return Dataset(images, position[dataset.labels[index]], classes, truth, paths)


def set_aside(data: DatasetSplits, names: Sequence[str]) -> DatasetSplits:
    """Take whole classes out of both parts; their training images become `outside`.

    Where the truth is known it says what an image shows. An image of a class that stays but was
    given the label of one that goes has no label left, and is dropped.
    """
    classes = data.train.classes
    for name in names:
        if name not in classes:
            raise DataError(f"no class is named {name!r}; {did_you_mean(name, classes)}")
    if not names:
        return data
    if len(set(names)) > len(classes) - 2:
        raise DataError(f"of {len(classes)} classes at least two must stay; set fewer aside")
    gone = torch.tensor([name in names for name in classes])
    stay, leave = rows(~gone), rows(gone)

    def kept(dataset: Dataset) -> Dataset | None:
        index = rows(~gone[shown(dataset)] & ~gone[dataset.labels])
        return narrowed(dataset, index, stay) if len(index) else None

    train = kept(data.train)
    seen = replace(data.train, labels=shown(data.train), truth=None)
    aside = rows(gone[seen.labels])
    if train is None or not len(aside):
        raise DataError(f"no images are left on one side when {', '.join(names)} are set aside")
    outside = narrowed(seen, aside, leave)
    if dropped := len(data.train) - len(train) - len(outside):
        note = f"dropped {dropped} images whose given label is a class that was set aside"
        data = replace(data, notes=(*data.notes, note))
    outside = joined(data.outside, outside) if data.outside else outside
    return replace(data, train=train, test=data.test and kept(data.test), outside=outside)


def joined(first: Dataset, second: Dataset) -> Dataset:
    """Both, each with classes of its own."""
    labels = torch.cat([first.labels, second.labels + len(first.classes)])
    images = Joined(first.images, second.images)
    return Dataset(images, labels, first.classes + second.classes)


def shown(dataset: Dataset) -> Tensor:
    """The true labels, or the given ones where nobody knows better. [N]"""
    return dataset.labels if dataset.truth is None else dataset.truth.labels


def rows(mask: Tensor) -> Tensor:
    """The positions at which a mask is true."""
    return mask.nonzero().flatten()
