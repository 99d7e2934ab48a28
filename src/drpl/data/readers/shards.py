"""WebDataset: tar archives in which the files of a sample share a name up to the first dot.

    0001.jpg 0001.cls       an image and its class
    0002.png 0002.json      an image, and an object with the label and whatever else is known

Archives are read where they lie; nothing is unpacked, so that no member can be put anywhere.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpl.data.address import SIGN, list_members
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import SUFFIXES, TEST_NAMES, Kind, LeftOut
from drpl.data.readers.list import LABEL_NAMES, choose_column, to_text
from drpl.data.readers.rows import Rows, build
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError

PACKED = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")
LABEL_ENDINGS = ("cls", "txt")
LARGEST = 2**20  # bytes of a label or of what is said of an image
SPLIT = re.compile(r"(?:^|[-_.])(train|test|valid|validation|val)(?=[-_.\d]|$)")
UNSAFE = Kind(
    "member whose name leads out of its archive", "members whose names lead out of their archive"
)
NO_SAMPLE = Kind("member that belongs to no image", "members that belong to no image")
SECOND = Kind("further image of one sample", "further images of one sample")

Sample = dict[str, str]  # a sample's members by their endings


def read(path: Path, read_options: ReadOptions) -> DatasetSplits:
    """The images of an archive, or of all archives in a folder.

    Parts are the folders `train` and `test`, or archives with such a word in their names.
    """
    root = path if path.is_dir() else path.parent
    left_out: LeftOut = {}
    rows, said = Rows(), list[dict[str, str]]()
    with explain_data_errors(path):
        for shard, split in _list_shards(path):
            for image, label, more in _read_samples(root, shard, read_options, left_out):
                rows.add(image, label, split)
                said.append(more)
    names = dict.fromkeys(name for more in said for name in more)
    rows.columns = {name: [more.get(name, "") for more in said] for name in names}
    return build(path, root, rows, read_options, left_out)


def _list_shards(path: Path) -> Iterator[tuple[Path, str]]:
    """Each archive, and the part that it belongs to."""
    if path.is_file():
        yield path, "train"
        return
    folders = [path, *(path / name for name in ("train", *TEST_NAMES) if (path / name).is_dir())]
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if file.name.lower().endswith(PACKED):
                raise DataError(f"{file} is compressed; unpack it to a .tar first")
            if file.suffix.lower() == ".tar" and file.is_file():
                word = SPLIT.search(file.stem)
                yield file, folder.name if folder != path else word[1] if word else "train"


def _read_samples(
    root: Path, shard: Path, read_options: ReadOptions, left_out: LeftOut
) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Address, label and other cells of each image in an archive."""
    members, samples = list_members(shard), dict[str, Sample]()
    home = str(shard.relative_to(root))
    for name in members:
        folder, _, file = name.rpartition("/")
        key, _, ending = file.partition(".")
        if name.startswith("/") or ".." in name.split("/"):
            left_out.setdefault(UNSAFE, []).append(f"{home}{SIGN}{name}")
        elif key:  # hidden files are none
            samples.setdefault(f"{folder}/{key}", {})[ending.lower()] = name
    for sample in samples.values():
        images = [name for ending, name in sample.items() if f".{ending}" in SUFFIXES]
        if not images:
            others = [f"{home}{SIGN}{name}" for name in sample.values()]
            left_out.setdefault(NO_SAMPLE, []).extend(others)
            continue
        left_out.setdefault(SECOND, []).extend(f"{home}{SIGN}{name}" for name in images[1:])
        with shard.open("rb") as content:
            texts = {
                ending: _read_text(
                    content, *members[sample[ending]], f"{shard}{SIGN}{sample[ending]}"
                )
                for ending in ("json", *LABEL_ENDINGS)
                if ending in sample
            }
        yield f"{home}{SIGN}{images[0]}", *_find_label(shard, texts, read_options)
    if not left_out.get(SECOND, True):
        del left_out[SECOND]


def _read_text(file: Any, start: int, size: int, name: str) -> str:
    if size > LARGEST:
        raise DataError(f"{name} has {size:,} bytes; at most {LARGEST:,} are read of a label")
    file.seek(start)
    return str(file.read(size).decode("utf-8-sig")).strip()


def _find_label(
    shard: Path, texts: dict[str, str], read_options: ReadOptions
) -> tuple[str, dict[str, str]]:
    """The label of a sample, nothing where it has none, and whatever else is said of it."""
    try:
        said = json.loads(texts.get("json", "{}"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{shard}: a .json in it is damaged: {error}") from None
    cells = {str(name): to_text(value) for name, value in said.items()} if said else {}
    if read_options.label_pattern:
        return "", cells
    if read_options.label_column is None:
        for ending in LABEL_ENDINGS:
            if ending in texts:
                return texts[ending], cells
    if not cells:
        return "", cells
    names = list(cells)
    chosen = names[choose_column(shard, names, read_options.label_column, LABEL_NAMES, "label")]
    return cells.pop(chosen), cells
