"""CIFAR-10 and CIFAR-100 from their official python files, also with the labels of CIFAR-N."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drpl.data.dataset import DatasetSplits, Truth, in_memory
from drpl.data.locate import locate
from drpl.data.safe_pickle import (
    join_batches,
    list_batches,
    read_archive,
    read_batch,
    read_pickle,
    to_labels,
)
from drpl.data.sources import ReadOptions
from drpl.errors import DataError, did_you_mean

# The deviations of CIFAR-10 are those of the authors' code, means over images of each image's own.
SCALE10 = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
SCALE100 = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
BATCHES = 5
TRUE = "clean_label"


def read_cifar10(root: Path, read_options: ReadOptions | None = None) -> DatasetSplits:
    """CIFAR-10 from the folder of its files; those of its batches that are there, in order."""
    files = list_batches(root, "data_batch_", BATCHES)
    names = _read_class_names(root / "batches.meta", "label_names")
    train = join_batches([read_batch(file) for file in files], root)
    test = read_batch(root / "test_batch") if (root / "test_batch").is_file() else None
    name, have = root.resolve().name, ", ".join(file.name[-1] for file in files)
    note = f"{name} has batch {have} of {BATCHES}: {len(train[1]):,} training images, not all"
    return DatasetSplits(
        name,
        in_memory(*train, names),
        in_memory(*test, names) if test else None,
        *SCALE10,
        notes=(note,) if len(files) < BATCHES else (),
    )


def read_cifar100(root: Path, read_options: ReadOptions | None = None) -> DatasetSplits:
    """CIFAR-100 with its fine labels, from the folder of its files."""
    names = _read_class_names(root / "meta", "fine_label_names")
    train, test = (
        in_memory(*read_batch(root / part, "fine_labels"), names) for part in ("train", "test")
    )
    return DatasetSplits(root.resolve().name, train, test, *SCALE100)


def _read_class_names(path: Path, key: str) -> Sequence[str]:
    """The names that a file of both sets lists."""
    names = read_pickle(path).get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path} should list the names of the classes as {key!r}")
    return names


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
