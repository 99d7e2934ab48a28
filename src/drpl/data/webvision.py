"""WebVision 1.0: images that Google and Flickr returned for the names of ImageNet's classes."""

from dataclasses import replace
from pathlib import Path

import torch

from drpl.data import Reading
from drpl.data.dataset import Data
from drpl.data.folder import Listed, from_files
from drpl.data.imagenet32 import SCALE
from drpl.data.listing import check_files
from drpl.data.names import Term, class_names, read_lines, whole
from drpl.data.places import found
from drpl.errors import DataError, did_you_mean

CLASSES = 50  # the first ones, as the papers use it
SIDE = 256
SOURCES = ("google", "flickr")
VAL_FOLDERS = ("val_images_256", "val_images", ".")


def webvision(reading: Reading) -> Data:
    """WebVision in the data folder: both sources, or the one that the variant names."""
    root = found(reading, "webvision", ("webvision", "."), "info/train_filelist_*.txt")
    variant = f":{reading.variant}" if reading.variant else ""
    return replace(read(root, reading), name=f"webvision{variant}")


def read(root: Path, reading: Reading) -> Data:
    """The first 50 classes from the folder of the set."""
    if reading.variant and reading.variant not in SOURCES:
        raise DataError(
            f"webvision has no source {reading.variant!r}; {did_you_mean(reading.variant, SOURCES)}"
        )
    chosen = (reading.variant,) if reading.variant else SOURCES
    rows = [row for name in chosen for row in read_list(root, f"train_filelist_{name}.txt")]
    top = max((label for _, label in rows), default=-1) + 1
    names = class_names(range(top), synsets(root))

    def part(rows: list[tuple[str, int]], home: str) -> Listed:
        files = [str(Path(home, path)) for path, _ in rows]
        check_files([root / file for file in files], root)
        return files, torch.tensor([label for _, label in rows], dtype=torch.int64)

    test = None
    if (root / "info" / "val_filelist.txt").is_file():
        val = [row for row in read_list(root, "val_filelist.txt") if row[1] < top]
        homes = (home for home in VAL_FOLDERS if val and (root / home / val[0][0]).is_file())
        test = part(val, next(homes, VAL_FOLDERS[0])) if val else None
    side = reading.size or SIDE
    name, train = root.resolve().name, part(rows, "")
    return from_files(name, root, names, train, test, reading, (3, side, side), SCALE)


def read_list(root: Path, name: str) -> list[tuple[str, int]]:
    """Path and label of the images of the first classes in one of the set's lists."""
    path = root / "info" / name
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        file, _, text = line.strip().rpartition(" ")
        label = whole(text)
        if not file or label is None:
            raise DataError(f"{path}, line {number}: wanted are a path and a label, got {line!r}")
        if label < CLASSES:
            rows.append((file, label))
    return rows


def synsets(root: Path) -> dict[int, Term]:
    """Names of the classes from `info/synsets.txt`, if it is there."""
    path = root / "info" / "synsets.txt"
    if not path.is_file():
        return {}
    pairs = [line.partition(" ") for line in read_lines(path)]
    return {
        label: Term(wnid, words.partition(",")[0].strip() or wnid)
        for label, (wnid, _, words) in enumerate(pairs)
    }
