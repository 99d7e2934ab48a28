"""ImageNet32 and ImageNet64: some classes to tell apart, the others as images from outside.

Variants: `seed=S,classes=K` takes the first K of numpy's legacy permutation of the 1,000 classes
(the paper: 42 and 100), `skip=N` leaves out its first N before (25 after the paper's 100, to probe
its networks on: `skip=100,classes=25`), `ids=FILE` takes the labels in a text file, numbered from 1
as in the batches.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, ListedClass, in_memory
from drpl.data.safe_pickle import join_batches, list_batches, read_batch
from drpl.data.sources import ReadOptions
from drpl.data.wordnet import Term, class_names, parse_whole, read_lines, read_map, read_roles
from drpl.errors import DataError, did_you_mean

SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCHES = 10
ALL = 1000  # classes of ImageNet
PAPER = {"seed": 42, "classes": 100, "skip": 0}


def read(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """Both parts from the folder of the files, and the training images of the other classes."""
    files = list_batches(root, "train_data_batch_", BATCHES)
    inside, outside, terms = _read_classes(root, read_options.variant)
    train, others = _gather(files, (inside, outside), terms)
    if train is None:
        raise DataError(f"{root} has no training image of the {len(inside)} classes asked for")
    val = root / "val_data"
    test = _gather([val], (inside,), terms)[0] if val.is_file() else None
    note = f"{root} has {len(files)} of {BATCHES} batches: {len(train):,} images, not all"
    notes = (note,) if len(files) < BATCHES else ()
    if inside == choose_classes(f"classes={len(inside)}")[0]:
        train, others = list_as_released(train, others)
    name, listed_classes = root.resolve().name, _list_classes((inside, outside), terms)
    return DatasetSplits(
        name, train, test, *SCALE, outside=others, notes=notes, listed_classes=listed_classes
    )


def _list_classes(roles: Sequence[list[int]], terms: dict[int, Term]) -> tuple[ListedClass, ...]:
    """Every class by its label in the files, under the name that it has among its own role's."""
    names: dict[int, str] = {}
    for labels in roles:
        names |= zip(labels, class_names(labels, terms), strict=True)
    unknown = Term("", "")
    return tuple(
        ListedClass(names[label], terms.get(label, unknown).wnid) for label in sorted(names)
    )


def list_as_released(train: Dataset, outside: Dataset | None) -> tuple[Dataset, Dataset | None]:
    """Both parts with the order in which the released code lists them before it draws noise.

    Its generator permutes the classes, shuffles the images of each in that order, then all of the
    classes to tell apart, then all others.
    """
    draw = np.random.RandomState(PAPER["seed"])
    draw.permutation(ALL)
    lists = []
    for part in (train, outside):
        if part is None:
            continue
        counts = torch.bincount(part.labels, minlength=len(part.classes)).tolist()
        members = [mine.numpy() for mine in part.labels.argsort(stable=True).split(counts)]
        for mine in members:
            draw.shuffle(mine)
        lists.append(np.concatenate(members))
    for rows in lists:
        draw.shuffle(rows)
    first, *others = (torch.from_numpy(rows) for rows in lists)
    train = replace(train, official_order=first)
    return train, outside and replace(outside, official_order=others[0])


def _read_classes(root: Path, variant: str) -> tuple[list[int], list[int], dict[int, Term]]:
    """The labels to tell apart, in the order of their new numbers; those outside; all names."""
    if (root / "classes.json").is_file():
        if variant:
            raise DataError(
                f"{root / 'classes.json'} says which classes are meant; leave {variant!r} out, "
                "or the file"
            )
        terms = read_roles(root / "classes.json")
        if any(not 1 <= label <= ALL for label in terms):
            raise DataError(f"the labels in {root / 'classes.json'} should be 1 to {ALL}")
        inside = [label for label, term in terms.items() if term.inside]
        return inside, [label for label in terms if label not in inside], terms
    terms = read_map(root / "map_clsloc.txt") if (root / "map_clsloc.txt").is_file() else {}
    inside, rest = choose_classes(variant)
    return inside, rest, terms


def choose_classes(variant: str) -> tuple[list[int], list[int]]:
    """Labels (from 1) inside and outside, by a text such as `seed=7,classes=50`."""
    key, _, value = variant.partition("=")
    if key == "ids":
        words = " ".join(read_lines(Path(value))).replace(",", " ").split()
        every = range(1, ALL + 1)
        inside = [label for word in words if (label := parse_whole(word) or 0) in every]
        if len(set(inside)) != len(words):
            raise DataError(f"{value} should hold labels from 1 to {ALL}, none twice")
        return inside, [label for label in every if label not in inside]
    chosen = dict(PAPER)
    for option in variant.split(",") if variant else ():
        key, _, value = option.partition("=")
        if key not in chosen:
            known = [*chosen, "ids"]
            raise DataError(f"ImageNet has no option {option!r}; {did_you_mean(key, known)}")
        if (number := parse_whole(value)) is None:
            raise DataError(f"{option!r}: a whole number is wanted, for example {key}={PAPER[key]}")
        chosen[key] = number
    order = (np.random.RandomState(chosen["seed"]).permutation(ALL) + 1).tolist()
    first, last = chosen["skip"], chosen["skip"] + chosen["classes"]
    return order[first:last], order[:first] + order[last:]


def _gather(
    files: Sequence[Path], roles: Sequence[list[int]], terms: dict[int, Term]
) -> list[Dataset | None]:
    """For each list of classes its images, if any, numbered by their position in the list."""
    parts: list[list[tuple[Tensor, Tensor]]] = [[] for _ in roles]
    for file in files:
        pixels, given = read_batch(file)
        if len(given) and (int(given.min()) < 1 or int(given.max()) > ALL):
            raise DataError(f"the labels in {file} should be 1 to {ALL}")
        for labels, part in zip(roles, parts, strict=True):
            position = torch.full((ALL + 1,), -1)
            position[labels] = torch.arange(len(labels))
            rows = (position[given] >= 0).nonzero().flatten()
            part.append((pixels[rows], position[given[rows]]))
    joined = [join_batches(part, files[0].parent) for part in parts]
    return [
        in_memory(pixels, new, class_names(labels, terms)) if len(new) else None
        for (pixels, new), labels in zip(joined, roles, strict=True)
    ]
