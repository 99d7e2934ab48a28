"""Images that are there twice: of two labels one is wrong, and in both parts they test nothing."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from drpl.data.address import split_address
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import FileStates, TensorImages, trace
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
        yield f"{len(torn)} images are there twice under different labels: {list_some(pairs)}"


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
        yield f"{len(both)} test images are in the training part too: {names}"


def group_copies(marks: Marks) -> list[list[int]]:
    """The numbers of images that are the same."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, mark in enumerate(marks):
        groups[mark].append(i)
    return [group for group in groups.values() if len(group) > 1]


def mark_quickly(dataset: Dataset) -> Marks:
    """Digests of what is in memory; of others, which file it is: links lead to the same one."""
    if isinstance(dataset.images, TensorImages):
        return mark_pixels(dataset)
    sources, rows = trace(dataset.images)
    if len(sources) > 1 or not isinstance(sources[0], FileStates):
        return range(len(dataset))
    files, marks = sources[0], list[Any]()
    for i in rows.tolist():
        try:
            file, part = split_address(os.path.join(files.root, files.names[i]))  # noqa: PTH118
            state = os.stat(file)  # noqa: PTH116
            marks.append((state.st_dev, state.st_ino, part))
        except OSError:
            marks.append(i)
    return marks


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
