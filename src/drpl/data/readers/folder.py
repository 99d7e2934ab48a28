"""A folder of images with a sub-folder for each class."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from drpl.data.dataset import Dataset, DatasetSplits, check_every_class, statistics
from drpl.data.pixel_store import hold, open_snapshot, save_snapshot
from drpl.data.sources import ReadOptions
from drpl.errors import DataError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
TEST_NAMES = ("test", "val", "valid", "validation")

Listed = tuple[list[str], torch.Tensor]  # files, from the data set's root on, and their labels
Notes = tuple[str, ...]
Scale = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation per channel


def folder(root: Path | str, read_options: ReadOptions | None = None) -> DatasetSplits:
    """Read `root/<class>/...`, or `root/train/<class>/...` with `root/test/<class>/...`.

    Images of all sizes become squares of `read_options.size` pixels (default: the middle of their
    shorter sides, a multiple of 8 up to 64). The set is grey if every image is.
    """
    root, read_options = Path(root), read_options or ReadOptions()
    cached = read_options.hold in ("auto", "cache") and not read_options.lazy
    if cached and (found := open_snapshot(root, read_options)):
        return found
    train_root = root / "train" if (root / "train").is_dir() else root
    test_root = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    if train_root == root:
        test_root = None
    folders = (path.name for path in train_root.iterdir() if path.is_dir())
    classes = tuple(sorted(name for name in folders if not name.startswith(".")))
    if not classes:
        raise DataError(f"{train_root} has no sub-folders; put the images of each class into one")
    train = list_labelled(train_root, classes, root)
    if not train[0]:
        raise DataError(f"{train_root} has no images ({', '.join(sorted(SUFFIXES))})")
    test = list_labelled(test_root, classes, root) if test_root else None
    data = from_files(root.resolve().name, root, classes, train, test, read_options)
    tops = [top / name for top in (train_root, test_root) if top for name in classes]
    if cached:
        everything = [top for top in (train_root, test_root, *tops) if top]
        save_snapshot(data, root, everything, read_options)
    return data


def from_files(
    name: str,
    root: Path,
    classes: tuple[str, ...],
    train: Listed,
    test: Listed | None,
    read_options: ReadOptions,
    shape: tuple[int, int, int] | None = None,
    scale: Scale | None = None,
) -> DatasetSplits:
    """A data set of image files below `root` in one size, kept as `read_options` ask."""
    check_every_class(train[1], classes)  # before the images are decoded, which can take long

    def part(files: Listed, what: str, like: tuple[int, ...] | None) -> tuple[Dataset, Notes]:
        names, labels = files
        images, broken = hold(root, names, read_options, what, like)
        kept = [i for i in range(len(names)) if i not in broken]
        notes = tuple(f"left out {why}" for why in broken.values())
        return Dataset(images, labels[kept], classes, paths=tuple(names[i] for i in kept)), notes

    first, notes = part(train, "train", shape)
    check_every_class(first.labels, classes)  # also of what could be read
    second = None
    if test and test[0]:
        second, more = part(test, "test", first.images.shape)
        notes += more
    if read_options.lazy:
        scale = (0.0,) * 3, (1.0,) * 3  # of the vectors it is another one
    return DatasetSplits(name, first, second, *(scale or statistics(first.images)), notes=notes)


def list_labelled(where: Path, classes: tuple[str, ...], root: Path) -> Listed:
    """Every image file below the class folders of `where`, from `root` on, with its label."""
    below = where.relative_to(root)
    found = [
        list(list_images(where / name, str(below / name))) if (where / name).is_dir() else []
        for name in classes
    ]
    counts = torch.tensor([len(names) for names in found])
    every = [name for names in found for name in names]
    return every, torch.arange(len(classes)).repeat_interleave(counts)


def list_images(where: Path | str, name: str) -> Iterator[str]:
    """The image files in a folder and its sub-folders, in a fixed order."""
    with os.scandir(where) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from list_images(entry.path, f"{name}{os.sep}{entry.name}")
        elif os.path.splitext(entry.name)[1].lower() in SUFFIXES:  # noqa: PTH122
            yield f"{name}{os.sep}{entry.name}"
