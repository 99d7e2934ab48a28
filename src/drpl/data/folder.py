"""A folder of images with a sub-folder for each class."""

import os
import statistics as middle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from PIL import Image

from drpl.data import Reading
from drpl.data.dataset import Data, Dataset, check_every_class, statistics
from drpl.data.images import THREADS, FileImages, Images, is_grey, reason
from drpl.errors import DataError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
TEST_NAMES = ("test", "val", "valid", "validation")
LARGEST = 64  # pixels a side, unless the user asks for more
Listed = tuple[list[Path], torch.Tensor]  # files and their labels
MEMORY = 4 * 2**30  # bytes of decoded pixels that are kept in memory; more is read as needed


def folder(root: Path | str, reading: Reading | None = None) -> Data:
    """Read `root/<class>/...`, or `root/train/<class>/...` with `root/test/<class>/...`.

    Images of all sizes become squares of `reading.size` pixels (default: the middle of their
    shorter sides, a multiple of 8 up to 64). The set is grey if every image is.
    """
    root, reading = Path(root), reading or Reading()
    train_root = root / "train" if (root / "train").is_dir() else root
    test_root = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    if train_root == root:
        test_root = None
    classes = tuple(sorted(p.name for p in visible(train_root) if p.is_dir()))
    if not classes:
        raise DataError(f"{train_root} has no sub-folders; put the images of each class into one")
    train_files, train_labels = listed(train_root, classes)
    if not train_files:
        raise DataError(f"{train_root} has no images ({', '.join(sorted(SUFFIXES))})")
    check_every_class(train_labels, classes)
    test = listed(test_root, classes) if test_root else None
    return from_files(
        root.resolve().name, root, classes, (train_files, train_labels), test, reading
    )


def from_files(
    name: str,
    root: Path,
    classes: tuple[str, ...],
    train: Listed,
    test: Listed | None,
    reading: Reading,
) -> Data:
    """A data set of image files below `root`, scaled to one size."""
    heads = look(train[0])
    side = reading.size or chosen_size([min(width, height) for width, height, _ in heads])
    channels = 1 if all(grey for _, _, grey in heads) else 3

    def part(files: list[Path], labels: torch.Tensor) -> Dataset:
        images = held(FileImages(files, side, channels))
        paths = tuple(os.path.relpath(file, root) for file in files)
        return Dataset(images, labels, classes, paths=paths)

    first = part(*train)
    return Data(name, first, part(*test) if test else None, *statistics(first.images))


def visible(root: Path) -> list[Path]:
    """What is in a folder, in a fixed order, without hidden files."""
    return sorted(path for path in root.iterdir() if not path.name.startswith("."))


def listed(root: Path, classes: tuple[str, ...]) -> Listed:
    """Every image file below the class folders of `root`, with its label."""
    files: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        if (root / name).is_dir():
            found = [p for p in sorted((root / name).rglob("*")) if p.suffix.lower() in SUFFIXES]
            files += found
            labels += [number] * len(found)
    return files, torch.tensor(labels, dtype=torch.int64)


def look(files: list[Path]) -> list[tuple[int, int, bool]]:
    """Width, height and greyness of every file, from its first bytes."""

    def head(path: Path) -> tuple[int, int, bool]:
        try:
            with Image.open(path) as image:
                return (*image.size, is_grey(image))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(f"cannot read image {path}: {reason(error)}") from error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(head, files))


def chosen_size(sides: list[int]) -> int:
    """A square that suits most images: the median of the shorter sides, in steps of 8."""
    return max(8, min(LARGEST, int(middle.median(sides)) // 8 * 8))


def held(images: FileImages) -> Images:
    """In memory when they fit; otherwise as files, each decoded once now to find broken ones."""
    channels, height, width = images.shape
    if len(images) * channels * height * width <= MEMORY:
        return images.in_memory()
    for part in torch.arange(len(images)).split(1024):
        images.load(part)
    return images
