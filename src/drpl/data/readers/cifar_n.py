"""CIFAR-N: CIFAR-10 and CIFAR-100 with labels that people gave."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drpl.data.dataset import DatasetSplits, Truth
from drpl.data.locate import locate
from drpl.data.readers.cifar import BATCHES, read_cifar10, read_cifar100
from drpl.data.safe_pickle import read_archive, to_labels
from drpl.data.sources import ReadOptions
from drpl.errors import DataError, did_you_mean

TRUE = "clean_label"


def read_cifar10n(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """CIFAR-10 with the human labels that the variant names."""
    clean = read_cifar10(locate("cifar10", read_options))
    return _replace_labels(clean, root / "CIFAR-10_human.pt", read_options.variant)


def read_cifar100n(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """CIFAR-100 with its human labels."""
    clean = read_cifar100(locate("cifar100", read_options))
    return _replace_labels(clean, root / "CIFAR-100_human.pt", read_options.variant)


def _replace_labels(data: DatasetSplits, path: Path, variant: str) -> DatasetSplits:
    """The set with given labels from a file of CIFAR-N, its own being the truth."""
    known = read_human_labels(path)
    if variant not in known or variant == TRUE:
        others = known.keys() - {TRUE}
        raise DataError(f"{path} has no labels {variant!r}; {did_you_mean(variant, others)}")
    labels, count = data.train.labels, len(data.train)
    if not torch.equal(known[TRUE][:count], labels):
        raise DataError(
            f"{path} does not belong to these images: its {TRUE} is not their labels; the first "
            f"of the {BATCHES} batches must be there, without gaps"
        )
    truth = Truth(labels, torch.ones(count, dtype=torch.bool))
    train = replace(data.train, labels=known[variant][:count], truth=truth)
    return replace(data, train=train)


def read_human_labels(path: Path) -> dict[str, Tensor]:
    """Every list of labels for the (fine) classes in a file of CIFAR-N, by name."""
    lists = {name: to_labels(values) for name, values in read_archive(path).items()}
    labels = {n: values for n, values in lists.items() if values is not None and "coarse" not in n}
    if TRUE not in labels or len({len(values) for values in labels.values()}) > 1:
        raise DataError(f"{path} should hold {TRUE} and other lists of labels of one length")
    return labels
