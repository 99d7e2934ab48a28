"""Out-of-distribution noise: the image is replaced by one of no class at hand, the label stays."""

import torch
from torch import Generator, Tensor

from drpl.data.dataset import Dataset
from drpl.errors import ConfigError
from drpl.noise.kind import Change, Noise, NoiseContext, Part, Quota, even_rates
from drpl.noise.official import draw_official_alike, draw_official_outside

DIRECTIONS = ("column", "row")


def ood(rate: float, around: NoiseContext, scheme: str = "paper") -> Noise:
    """A share of each class shows images of outside classes, every class with equal chance."""
    outside = around.require_outside()

    def draw(dataset: Dataset, quota: Quota, generator: Generator) -> Change:
        if scheme == "official":
            rows, images = draw_official_outside(dataset, outside, rate)
        else:
            rows = torch.cat([mine for _, mine in quota.each(dataset.labels, generator)])
            unused = torch.ones(len(outside), dtype=torch.bool)
            unused[quota.spent] = False
            fresh = torch.bincount(outside.labels[unused], minlength=len(outside.classes))
            classes = _draw_classes(len(rows), fresh, outside, generator)
            images = _draw_images(classes, outside, quota.spent, generator)
        return Change(rows, dataset.labels[rows], images)

    return Noise((Part(draw, even_rates(rate), outside, scheme),))


def ood_nonuniform(
    rate: float, around: NoiseContext, scheme: str = "paper", direction: str = "column"
) -> Noise:
    """A share of each class shows images of outside classes that look like it.

    By column: classes that networks take for the kept label, as the released code has it. By row:
    classes that the kept label is taken for, as the paper says.
    """
    outside = around.require_outside()
    if direction not in DIRECTIONS:
        raise ConfigError(f"unknown direction {direction!r}; known are {', '.join(DIRECTIONS)}")

    def draw(dataset: Dataset, quota: Quota, generator: Generator) -> Change:
        chances = _class_chances(dataset, outside, around, direction)
        if scheme == "official":
            rows, images = draw_official_alike(dataset, outside, chances, rate)
        else:
            rows, classes = quota.draw(dataset.labels, chances, generator)
            images = _draw_images(classes, outside, quota.spent, generator)
        return Change(rows, dataset.labels[rows], images)

    return Noise((Part(draw, even_rates(rate), outside, scheme),))


def _draw_classes(count: int, fresh: Tensor, outside: Dataset, generator: Generator) -> Tensor:
    """Outside classes drawn evenly from those that still have an unused image. [count]"""
    classes = torch.empty(0, dtype=torch.int64)
    left = fresh.clone()
    while len(classes) < count:
        if not bool(left.any()):  # every image is in use: begin anew
            left = torch.bincount(outside.labels, minlength=len(fresh))
        able = left.nonzero().flatten()
        picks = torch.randint(len(able), (count - len(classes),), generator=generator)
        taken = torch.bincount(able[picks], minlength=len(left)).minimum(left)
        classes = torch.cat([classes, torch.arange(len(left)).repeat_interleave(taken)])
        left -= taken
    return classes[torch.randperm(count, generator=generator)]


def _draw_images(classes: Tensor, outside: Dataset, spent: Tensor, generator: Generator) -> Tensor:
    """For each class one of its images, in shuffled order, those not used before first. [M]"""
    order = torch.randperm(len(outside), generator=generator)
    uses = torch.bincount(spent, minlength=len(outside))
    order = order[uses[order].argsort(stable=True)]
    images = torch.empty_like(classes)
    for c in classes.unique().tolist():
        wanted, members = classes == c, order[outside.labels[order] == c]
        images[wanted] = members[torch.arange(int(wanted.sum())) % len(members)]
    return images


def _class_chances(
    dataset: Dataset, outside: Dataset, around: NoiseContext, direction: str
) -> Tensor:
    """The chance of each outside class for each label. [C, outside classes]"""
    confusion = around.require_confusion("ood-nonuniform", "DATA --ood DATA")
    if both := sorted(set(dataset.classes) & set(outside.classes)):
        raise ConfigError(f"class {both[0]!r} is both in the data set and outside it; rename one")
    if direction == "column":
        chances = confusion.among(outside.classes, dataset.classes).T.clone()
    else:
        chances = confusion.among(dataset.classes, outside.classes)
    empty = torch.bincount(outside.labels, minlength=len(outside.classes)) == 0
    chances[:, empty] = 0  # a class without images can give none
    return chances / chances.sum(1, keepdim=True)
