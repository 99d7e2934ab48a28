"""CIFAR-10 and CIFAR-100 from their official python files."""

from collections.abc import Sequence
from pathlib import Path

from drpl.data.dataset import DatasetSplits, in_memory
from drpl.data.safe_pickle import join_batches, list_batches, read_batch, read_pickle
from drpl.data.sources import ReadOptions
from drpl.errors import DataError

# The deviations of CIFAR-10 are those of the authors' code, means over images of each image's own.
SCALE10 = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
SCALE100 = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
BATCHES = 5


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
