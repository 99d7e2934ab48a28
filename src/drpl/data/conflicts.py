"""Images that are there twice: of two labels one is wrong, and in both parts they test nothing."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import torch

from drpl.data.address import split_address
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.file_states import FileStates
from drpl.data.images import TensorImages, trace
from drpl.files import make_printable

MANY = 200_000  # images of which nobody waits to hear this
SOME = 5  # examples that are named

Marks = Sequence[Any]  # something for each image that is the same for the same image


def find_conflicts(data: DatasetSplits) -> Iterator[str]:
    """What the user should know before training, of sets that are not too large."""
    parts = [part for part in (data.train, data.test) if part]
    if sum(map(len, parts)) > MANY:
        return
    marks = [mark_quickly(part) for part in parts]
    yield from find_two_labels(data.train, marks[0])
    if data.test:
        yield from find_leaks(marks[0], data.test, marks[1])


def find_two_labels(dataset: Dataset, marks: Marks) -> Iterator[str]:
    """Images that are there twice under different labels."""
    torn = [g for g in group_copies(marks) if not have_same_labels(dataset, g)]
    if torn:
        pairs = [" = ".join(name_image(dataset, i) for i in group[:2]) for group in torn]
        what = "1 image is" if len(torn) == 1 else f"{len(torn):,} images are"
        yield f"{what} there twice under different labels: {list_some(pairs)}"


def have_same_labels(dataset: Dataset, group: Sequence[int]) -> bool:
    """Whether images carry the same label, or the same ones."""
    labels = dataset.labels[:, None] if dataset.tags is None else dataset.tags
    return len(labels[list(group)].unique(dim=0)) == 1


def find_leaks(train: Marks, test: Dataset, marks: Marks) -> Iterator[str]:
    """Test images that are in the training part as well."""
    known = set(train)
    both = [i for i, mark in enumerate(marks) if mark in known]
    if both:
        names = list_some([name_image(test, i) for i in both])
        what = "1 test image is" if len(both) == 1 else f"{len(both):,} test images are"
        yield f"{what} in the training part too: {names}"


def group_copies(marks: Marks) -> list[list[int]]:
    """The numbers of images that are the same."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, mark in enumerate(marks):
        groups[mark].append(i)
    return [group for group in groups.values() if len(group) > 1]


def mark_quickly(dataset: Dataset) -> Marks:
    """Digests of what is in memory, and of files that are as long as others; else which file."""
    if isinstance(dataset.images, TensorImages):
        return mark_pixels(dataset)
    sources, rows = trace(dataset.images)
    if len(sources) > 1 or not isinstance(sources[0], FileStates):
        return range(len(dataset))
    files = sources[0]
    places = [os.path.join(files.root, files.names[i]) for i in rows.tolist()]  # noqa: PTH118
    return mark_files(places)


def mark_files(places: Sequence[str]) -> Marks:
    """The same mark for files of the same content, of which only those of one length are read."""
    marks: list[Any] = list(range(len(places)))
    whole: dict[int, list[tuple[int, str, int]]] = defaultdict(list)  # by length
    for i, place in enumerate(places):
        with suppress(OSError):
            file, part = split_address(place)
            state = os.stat(file)  # noqa: PTH116
            marks[i] = (state.st_dev, state.st_ino, part)
            if not part:
                whole[state.st_size].append((i, file, state.st_mtime_ns))
    for size, same in whole.items():
        for i, file, time in same if len(same) > 1 else ():
            with suppress(OSError):
                marks[i] = _digest_file(file, size, time)
    return marks


@lru_cache(MANY)  # data are listed before they are read
def _digest_file(file: str, size: int, time: int) -> bytes:
    with open(file, "rb") as content:  # noqa: PTH123
        return hashlib.file_digest(content, "blake2b").digest()


def mark_pixels(dataset: Dataset) -> Marks:
    """A digest of every image's pixels."""
    marks: list[bytes] = []
    for part in torch.arange(len(dataset)).split(1024):
        rows = dataset.images.load(part).cpu().contiguous().numpy()
        marks += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    return marks


def name_image(dataset: Dataset, i: int) -> str:
    """An image by its path or number, and its label."""
    name = make_printable(dataset.paths[i]) if dataset.paths else f"image {i}"
    own = dataset.labels[i : i + 1] if dataset.tags is None else dataset.tags[i].nonzero().flatten()
    return f"{name} ({', '.join(dataset.classes[c] for c in own.tolist())})"


def list_some(names: Sequence[str]) -> str:
    """The first few."""
    return ", ".join(names[:SOME]) + (", ..." if len(names) > SOME else "")
