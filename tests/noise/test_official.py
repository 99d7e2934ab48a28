"""The authors' draws on ImageNet: on their own lists, which their code shuffles first."""

from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.readers.imagenet import choose_classes
from drpl.data.sources import ReadOptions, load
from drpl.noise.confusion import Confusion
from drpl.noise.inject import make_noise
from drpl.noise.kind import NoiseContext
from drpl.randomness import rng
from tests.support.datasets import make_imagenet

INSIDE, OUTSIDE = choose_classes("classes=3")
SPECS = ["uniform:0.4", "nonuniform:0.4", "ood:0.4", "ood-nonuniform:0.4"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DatasetSplits:
    """80 images of three classes to tell apart and of five others, in ten batches."""
    folder = tmp_path_factory.mktemp("data")
    make_imagenet(folder / "imagenet32", [*INSIDE, *OUTSIDE[:5]])
    return load("imagenet32:classes=3", ReadOptions(data_dir=folder))


def list_as_authors(data: DatasetSplits) -> tuple[list[int], list[int]]:
    """Rows of both parts, put in lists as the released code does it, step by step."""
    draw = np.random.RandomState(42)
    own, other = list[int](), list[int]()
    assert data.outside is not None
    for place, label in enumerate(draw.permutation(1000)):
        mine, part, into = (
            (place, data.train, own) if place < 3 else (place - 3, data.outside, other)
        )
        assert label + 1 == (INSIDE + OUTSIDE)[place]
        rows = (part.labels == mine).nonzero().flatten().tolist()
        draw.shuffle(rows)
        into += rows
    draw.shuffle(own)
    draw.shuffle(other)
    return own, other


def test_the_order_is_that_of_the_released_lists(data: DatasetSplits) -> None:
    own, other = list_as_authors(data)
    assert own != sorted(own)
    assert data.train.official_order is not None
    assert data.outside is not None
    assert data.outside.official_order is not None
    assert data.train.official_order.tolist() == own
    assert data.outside.official_order.tolist() == other


def find_changes(dataset: Dataset, spec: str, around: NoiseContext) -> set[tuple[int, int, int]]:
    """Row, new label, row of the outside that took its place, of every sample that changed."""
    (change,) = make_noise(f"{spec},scheme=official", around).draw(dataset, rng(9, "ignored"))
    images = change.images if change.images is not None else torch.full_like(change.rows, -1)
    columns = (change.rows, change.labels, images)
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("spec", SPECS)
def test_noise_is_drawn_on_the_released_lists(data: DatasetSplits, spec: str) -> None:
    """The same as on data that really lie in that order, told apart by their first rows."""
    assert data.outside is not None
    names = data.train.classes + data.outside.classes
    table = torch.rand(len(names), len(names), generator=rng("table")).double()
    own, other = (torch.tensor(rows) for rows in list_as_authors(data))
    lists = data.train.select(own), data.outside.select(other)
    assert lists[0].official_order is None  # what was selected is in its own order
    found = find_changes(data.train, spec, NoiseContext(data.outside, Confusion(table, names)))
    physical = find_changes(lists[0], spec, NoiseContext(lists[1], Confusion(table, names)))
    back = {
        (int(own[row]), label, -1 if image < 0 else int(other[image]))
        for row, label, image in physical
    }
    assert found == back
    assert len(found) == 12


def test_other_choices_of_classes_are_not_the_authors(tmp_path: Path) -> None:
    for variant in ("seed=7,classes=3", "classes=3,skip=3"):
        make_imagenet(tmp_path / "imagenet32", choose_classes(variant)[0])
        other = load(f"imagenet32:{variant}", ReadOptions(data_dir=tmp_path))
        assert other.train.official_order is None
