"""CIFAR-10N and CIFAR-100N: what people said is on the training images of CIFAR."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drpl.data.dataset import DatasetSplits, Truth
from drpl.data.locate import locate
from drpl.data.readers.cifar import BATCHES, cifar10, cifar100
from drpl.data.safe_pickle import read_archive, to_labels
from drpl.data.sources import ReadOptions
from drpl.errors import DataError, did_you_mean

TRUE = "clean_label"


def cifar10n(read_options: ReadOptions) -> DatasetSplits:
    """CIFAR-10 with the human labels that the variant names."""
    return _read_human(
        cifar10, read_options, "cifar10n", "worse_label", "cifar-10n", "CIFAR-10_human.pt"
    )


def cifar100n(read_options: ReadOptions) -> DatasetSplits:
    """CIFAR-100 with its human labels."""
    return _read_human(
        cifar100, read_options, "cifar100n", "noisy_label", "cifar-100n", "CIFAR-100_human.pt"
    )


def _read_human(
    clean: Callable[[ReadOptions], DatasetSplits],
    read_options: ReadOptions,
    name: str,
    default: str,
    folder: str,
    file: str,
) -> DatasetSplits:
    """The set that `clean` reads, with given labels from `file` and its own as the truth."""
    path = locate(read_options, name, (folder, "."), file) / file
    known = read_human_labels(path)
    variant = read_options.variant or default
    if variant not in known or variant == TRUE:
        others = known.keys() - {TRUE}
        raise DataError(f"{path} has no labels {variant!r}; {did_you_mean(variant, others)}")
    data = clean(read_options)
    labels, count = data.train.labels, len(data.train)
    if not torch.equal(known[TRUE][:count], labels):
        raise DataError(
            f"{path} does not belong to these images: its {TRUE} is not their labels; the first "
            f"of the {BATCHES} batches must be there, without gaps"
        )
    truth = Truth(labels, torch.ones(count, dtype=torch.bool))
    train = replace(data.train, labels=known[variant][:count], truth=truth)
    return replace(data, name=f"{name}:{variant}", train=train)


def read_human_labels(path: Path) -> dict[str, Tensor]:
    """Every list of labels for the (fine) classes in a file of CIFAR-N, by name."""
    lists = {name: to_labels(values) for name, values in read_archive(path).items()}
    labels = {n: values for n, values in lists.items() if values is not None and "coarse" not in n}
    if TRUE not in labels or len({len(values) for values in labels.values()}) > 1:
        raise DataError(f"{path} should hold {TRUE} and other lists of labels of one length")
    return labels
