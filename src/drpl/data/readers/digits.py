"""The embedded data set: scikit-learn's 1,797 scanned digits of 8 x 8 pixels."""

from pathlib import Path

import torch
from sklearn.datasets import load_digits

from drpl.data.dataset import Dataset, DatasetSplits, in_memory, statistics
from drpl.data.sources import ReadOptions
from drpl.randomness import rng

TEST_SHARE = 0.2


def read(root: Path | None = None, read_options: ReadOptions | None = None) -> DatasetSplits:
    """1,437 training and 360 test images of ten digits; the same split for everyone."""
    bunch = load_digits()
    pixels = torch.from_numpy(bunch.images / 16 * 255).round().to(torch.uint8)[:, None]
    labels = torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(labels), generator=rng("digits", "split"))
    cut = round(len(order) * TEST_SHARE)
    names = [str(digit) for digit in range(10)]

    def part(index: torch.Tensor) -> Dataset:
        return in_memory(pixels[index], labels[index], names)

    train = part(order[cut:])
    return DatasetSplits("digits", train, part(order[:cut]), *statistics(train.images))
