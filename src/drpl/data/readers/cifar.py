"""CIFAR-10 and CIFAR-100 from their official python files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drpl.data.dataset import DatasetSplits, in_memory
from drpl.data.download import Archive
from drpl.data.locate import locate
from drpl.data.safe_pickle import join_batches, read_batch, read_pickle
from drpl.data.sources import ReadOptions
from drpl.errors import DataError

HOME = "https://www.cs.toronto.edu/~kriz/"
ARCHIVE10 = Archive(
    f"{HOME}cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py"
)
ARCHIVE100 = Archive(
    f"{HOME}cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python"
)
# The deviations of CIFAR-10 are those of the authors' code, means over images of each image's own.
SCALE10 = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
SCALE100 = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
BATCHES = 5


def cifar10(read_options: ReadOptions) -> DatasetSplits:
    """CIFAR-10 in the data folder."""
    root = locate(read_options, "cifar10", (ARCHIVE10.folder, "."), "data_batch_*", ARCHIVE10)
    return replace(read_cifar10(root), name="cifar10")


def cifar100(read_options: ReadOptions) -> DatasetSplits:
    """CIFAR-100 in the data folder."""
    root = locate(read_options, "cifar100", (ARCHIVE100.folder, "."), "meta", ARCHIVE100)
    return replace(read_cifar100(root), name="cifar100")


def read_cifar10(root: Path, read_options: ReadOptions | None = None) -> DatasetSplits:
    """CIFAR-10 from the folder of its files; those of its batches that are there, in order."""
    numbers = [n for n in range(1, BATCHES + 1) if (root / f"data_batch_{n}").is_file()]
    if not numbers:
        raise DataError(f"{root} has none of data_batch_1 to data_batch_{BATCHES}")
    names = _read_class_names(root / "batches.meta", "label_names")
    train = join_batches([read_batch(root / f"data_batch_{n}") for n in numbers], root)
    test = read_batch(root / "test_batch") if (root / "test_batch").is_file() else None
    notes: tuple[str, ...] = ()
    if len(numbers) < BATCHES:
        have, count = ", ".join(map(str, numbers)), f"{len(train[1]):,} training images"
        notes = (f"{root.resolve().name} has batch {have} of {BATCHES}: {count}, not all",)
    return DatasetSplits(
        root.resolve().name,
        in_memory(*train, names),
        in_memory(*test, names) if test else None,
        *SCALE10,
        notes=notes,
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
