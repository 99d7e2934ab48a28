"""WebVision 1.0: images that Google and Flickr returned for the names of ImageNet's classes."""

from pathlib import Path

import torch

from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import Listed, from_files
from drpl.data.readers.imagenet import SCALE
from drpl.data.readers.rows import Rows, check_files
from drpl.data.sources import ReadOptions
from drpl.data.wordnet import Term, class_names, parse_whole, read_lines
from drpl.errors import DataError, did_you_mean

CLASSES = 50  # the first ones, as the papers use it
SIDE = 256
SOURCES = ("google", "flickr")
VAL_FOLDERS = ("val_images_256", "val_images", ".")


def read(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """The first 50 classes from the folder of the set."""
    variant = read_options.variant
    if variant and variant not in SOURCES:
        raise DataError(f"webvision has no source {variant!r}; {did_you_mean(variant, SOURCES)}")
    chosen = (variant,) if variant else SOURCES
    rows = [row for name in chosen for row in _read_list(root, f"train_filelist_{name}.txt")]
    top = max((label for _, label in rows), default=-1) + 1
    names = class_names(range(top), _read_synsets(root))

    def part(rows: list[tuple[str, int]], home: str) -> Listed:
        files = [str(Path(home, path)) for path, _ in rows]
        check_files(Rows(files), root, root, ReadOptions(), {})
        return Listed(files, torch.tensor([label for _, label in rows], dtype=torch.int64))

    test = None
    if (root / "info" / "val_filelist.txt").is_file():
        val = [row for row in _read_list(root, "val_filelist.txt") if row[1] < top]
        homes = (home for home in VAL_FOLDERS if val and (root / home / val[0][0]).is_file())
        test = part(val, next(homes, VAL_FOLDERS[0])) if val else None
    side = read_options.size or SIDE
    name, train = root.resolve().name, part(rows, "")
    return from_files(name, root, names, train, test, read_options, (3, side, side), SCALE)


def _read_list(root: Path, name: str) -> list[tuple[str, int]]:
    """Path and label of the images of the first classes in one of the set's lists."""
    path = root / "info" / name
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        file, _, text = line.strip().rpartition(" ")
        label = parse_whole(text)
        if not file or label is None:
            raise DataError(f"{path}, line {number}: wanted are a path and a label, got {line!r}")
        if label < CLASSES:
            rows.append((file, label))
    return rows


def _read_synsets(root: Path) -> dict[int, Term]:
    """Names of the classes from `info/synsets.txt`, if it is there."""
    path = root / "info" / "synsets.txt"
    if not path.is_file():
        return {}
    pairs = [line.partition(" ") for line in read_lines(path)]
    return {
        label: Term(wnid, words.partition(",")[0].strip() or wnid)
        for label, (wnid, _, words) in enumerate(pairs)
    }
