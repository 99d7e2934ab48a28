"""Data sets that have nothing but the shape and size of public ones, to estimate times with."""

import torch

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import ComposedImages, TensorImages
from drpl.randomness import rng

DIFFERENT = 64  # images that are shown again and again

# Training images, test images, classes, pixels a side. The paper's parts of all but CIFAR.
SIZES = {
    "cifar10": (50_000, 10_000, 10, 32),
    "cifar100": (50_000, 10_000, 100, 32),
    "imagenet32": (127_000, 5_000, 100, 32),
    "imagenet64": (127_000, 5_000, 100, 64),
    "webvision": (137_000, 2_500, 50, 256),
    "webvision:google": (66_000, 2_500, 50, 342),
}
OUTSIDE = {"imagenet32": 1_154_000, "imagenet64": 1_154_000}  # training images of other classes


def make_synthetic(name: str) -> DatasetSplits:
    """Random pixels and labels by turns, as many as the data set of that name has."""
    train, test, classes, side = SIZES[name]
    shape = (DIFFERENT, 3, side, side)
    pixels = torch.randint(256, shape, dtype=torch.uint8, generator=rng("invented", name))
    names = tuple(str(c) for c in range(classes))

    def part(count: int) -> Dataset:
        number = torch.arange(count)
        images = ComposedImages((TensorImages(pixels),), number % DIFFERENT)
        return Dataset(images, number % classes, names)

    return DatasetSplits(name, part(train), part(test), (0.5,) * 3, (0.25,) * 3)
