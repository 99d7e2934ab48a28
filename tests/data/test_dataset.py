"""Operations on data sets keep images, labels, truth and paths together."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.data.dataset import (
    Dataset,
    DatasetSplits,
    EmptyClassError,
    Origin,
    Truth,
    check_every_class,
    check_labels,
)
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load, with_ood
from drpl.errors import DataError
from tests.support.datasets import make_idx, numbered, shown

OWN, FOREIGN = ("a", "b", "c"), ("x", "y")


@pytest.fixture
def traced() -> Dataset:
    """Nine images of a, b, c, each with its number as its path; 3 and 7 come from outside."""
    plain = numbered(9, OWN)
    source = torch.full((9,), -1)
    source[3], source[7] = 0, 1
    truth = Truth(plain.labels, source < 0, source)
    return replace(plain, truth=truth, paths=tuple(f"{k}.png" for k in range(9)))


def check_rows(data: Dataset, numbers: list[int]) -> None:
    """These images of `traced`, with everything that belongs to them."""
    assert shown(data).tolist() == numbers
    assert list(data.paths or ()) == [f"{k}.png" for k in numbers]
    assert data.truth is not None
    assert data.truth.source is not None
    assert data.truth.source.tolist() == [{3: 0, 7: 1}.get(k, -1) for k in numbers]
    assert data.truth.in_distribution.tolist() == [k not in (3, 7) for k in numbers]
    for labels in (data.labels, data.truth.labels):
        assert [data.classes[c] for c in labels.tolist()] == [OWN[k % 3] for k in numbers]


def test_select_keeps_everything_together(traced: Dataset) -> None:
    some = traced.select(torch.tensor([7, 0, 3]))
    check_rows(some, [7, 0, 3])
    assert isinstance(some.images, TensorImages)
    check_rows(traced.limit(4), [0, 1, 2, 3])


def test_select_classes_keeps_everything_together(traced: Dataset) -> None:
    part = traced.select_classes(("c", "b"))
    assert part.classes == ("c", "b")
    check_rows(part, [1, 2, 4, 5, 7, 8])
    given = traced.labels.clone()
    given[0] = 1  # shows a, is called b: neither an a nor a b
    check_rows(replace(traced, labels=given).select_classes(("a",)), [3, 6])
    twins = replace(traced, classes=("a", "b", "a")).select_classes(("b", "a"))
    assert twins.classes == ("b", "a", "a")
    assert twins.labels.tolist() == [1, 0, 2] * 3
    with pytest.raises(DataError, match="no class is named 'd'"):
        traced.select_classes(("a", "d"))


def test_concat_keeps_everything_together(traced: Dataset) -> None:
    other = replace(traced, classes=("p", "q", "r"))
    both = traced.concat(other)
    assert both.classes == (*OWN, "p", "q", "r")
    assert both.labels.tolist() == [0, 1, 2] * 3 + [3, 4, 5] * 3
    assert both.truth is not None
    assert both.truth.source is not None
    assert both.truth.labels.tolist() == both.labels.tolist()
    assert both.truth.source.tolist() == [-1, -1, -1, 0, -1, -1, -1, 1, -1] * 2
    check_rows(both.select(torch.arange(9)), list(range(9)))
    plain = replace(other, truth=Truth(other.labels, torch.ones(9, dtype=torch.bool)))
    mixed = traced.concat(plain).truth
    assert mixed is not None
    assert mixed.source is not None
    assert mixed.source[9:].tolist() == [-1] * 9
    unknown = traced.concat(numbered(4, FOREIGN))
    assert unknown.truth is None
    assert unknown.paths is not None
    assert unknown.paths[8:] == ("8.png", "", "", "", "")


def test_resize_keeps_everything_but_the_pixels(traced: Dataset) -> None:
    wide = traced.resize(4)
    assert wide.images.shape == (1, 4, 4)
    assert isinstance(wide.images, TensorImages)
    assert (wide.labels is traced.labels, wide.truth is traced.truth) == (True, True)
    assert wide.paths == traced.paths


def test_hold_out_keeps_the_source(traced: Dataset) -> None:
    data = DatasetSplits("traced", traced, traced, (0.5,), (0.5,), notes=("one",))
    left = data.hold_out(("b",))
    assert left.test is not None
    for part in (left.train, left.test):
        check_rows(part, [0, 2, 3, 5, 6, 8])
    assert left.outside is not None
    assert left.outside.classes == ("b",)
    assert shown(left.outside).tolist() == [1, 4, 7]
    assert left.outside.paths == ("1.png", "4.png", "7.png")
    assert left.notes == ("one",)
    limited = left.limit(2)
    check_rows(limited.train, [0, 2])
    assert limited.notes == ("one",)


def test_an_outside_by_name() -> None:
    data = DatasetSplits("numbered", numbered(60, OWN), None, (0.5,), (0.5,))
    assert with_ood(data, None) is data
    assert with_ood(data, "digits").outside is not None
    assert with_ood(data, data).outside is data.train
    traced = replace(data, origin=Origin("numbered", ReadOptions()))
    named = with_ood(traced, "digits").origin
    assert named is not None
    assert named.ood == "digits"
    unnamed = with_ood(replace(data, origin=named), data.train).origin
    assert unnamed is not None
    assert unnamed.ood is None


def test_classes_of_any_set_can_be_outside(tmp_path: Path) -> None:
    make_idx(tmp_path)
    data = load("fashion-mnist", ReadOptions(data_dir=tmp_path, outside=("Bag", "Coat")))
    assert len(data.train.classes) == 8
    assert data.train.classes[4] == "Sandal"
    assert data.outside is not None
    assert data.test is not None
    assert data.outside.classes == ("Coat", "Bag")
    assert (len(data.train), len(data.test), len(data.outside)) == (24, 24, 6)
    assert data.outside.labels.tolist() == [0, 1, 0, 1, 0, 1]
    whole = load("fashion-mnist", ReadOptions(data_dir=tmp_path))
    boots = data.train.images.load((data.train.labels == 7).nonzero().flatten())
    assert torch.equal(boots, whole.train.images.load((whole.train.labels == 9).nonzero()[:, 0]))


def test_the_truth_says_what_is_outside(tiny: DatasetSplits) -> None:
    given = tiny.train.labels.clone()
    given[0], given[1] = 1, 2  # a top called left, a left called middle
    truth = Truth(tiny.train.labels, torch.ones(72, dtype=torch.bool))
    noisy = replace(tiny, train=replace(tiny.train, labels=given, truth=truth))
    data = noisy.hold_out(["left"])
    assert data.outside is not None
    assert len(data.outside) == 24  # with the one that was called middle
    assert len(data.train) == 47  # without the one that was called left
    assert data.train.truth is not None
    assert torch.equal(data.train.truth.labels, data.train.labels)
    assert "dropped 1 images" in data.notes[0]


def test_more_can_be_put_outside(tiny: DatasetSplits) -> None:
    more = arrays(torch.zeros(4, 1, 8, 8, dtype=torch.uint8).numpy(), ["p", "q"] * 2)
    data = tiny.with_ood(more).hold_out(["middle"])
    assert data.outside is not None
    assert data.outside.classes == ("p", "q", "middle")
    assert data.outside.labels[:5].tolist() == [0, 1, 0, 1, 2]
    mixed = data.outside.images.load(torch.tensor([4, 0, 5]))
    assert mixed.flatten(1).sum(1).bool().tolist() == [True, False, True]


def test_classes_that_cannot_be_set_aside(tiny: DatasetSplits) -> None:
    with pytest.raises(DataError, match="did you mean 'middle'"):
        tiny.hold_out(["midle"])
    with pytest.raises(DataError, match="at least two must stay"):
        tiny.hold_out(["middle", "top"])
    assert tiny.hold_out(()) is tiny


def test_limit_takes_the_first_of_each_class_evenly() -> None:
    labels = torch.tensor([0, 0, 0, 0, 1, 2, 1, 2, 0, 1])
    data = replace(numbered(10, ("a", "b", "c")), labels=labels)
    assert shown(data.limit(6)).tolist() == [0, 1, 4, 5, 6, 7]
    assert shown(data.limit(9)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert data.limit(50) is data


def test_size_and_limit_of_a_named_set() -> None:
    whole, small = load("digits"), load("digits", ReadOptions(size=4, limit=100, outside=("9",)))
    assert small.train.images.shape == (1, 4, 4)
    assert torch.bincount(small.train.labels).min() == 11
    assert len(small.train) == 100
    assert small.test is not None
    assert small.outside is not None
    assert len(small.outside) == 100
    first = whole.train.images.load(torch.tensor([0])).float()
    mean = first.view(1, 1, 4, 2, 4, 2).mean((3, 5))
    found = small.train.images.load(torch.tensor([0])).float()
    both = torch.stack([found.flatten(), mean.flatten()])
    assert float(torch.corrcoef(both)[0, 1]) > 0.95  # much like the mean of four pixels
    assert len(whole.train) > 1000


def test_truth_and_vectors_are_carried_along(tmp_path: Path) -> None:
    x, y = np.random.default_rng(1).normal(size=(40, 5)), np.arange(40) % 2
    np.savez(tmp_path / "v.npz", x=x, y=y[::-1], y_true=y)
    data = load(str(tmp_path / "v.npz"), ReadOptions(size=8, limit=10))
    assert data.train.images.shape == (5,)
    assert data.train.truth is not None
    assert data.train.truth.labels.tolist() == [k % 2 for k in range(10)]


def test_labels_beyond_the_classes() -> None:
    with pytest.raises(DataError, match="outside"):
        check_labels(torch.tensor([0, 5]), ["a", "b"], 2)


def test_a_class_without_images_is_an_error_that_reaches_other_processes() -> None:
    """A pool of processes broke where it was to hand it on."""
    with pytest.raises(EmptyClassError) as raised:
        check_every_class(torch.tensor([0, 2]), ["a", "b", "c"])
    handed_on = pickle.loads(pickle.dumps(raised.value))
    assert type(handed_on) is EmptyClassError
    assert (str(handed_on), handed_on.others) == (str(raised.value), ("a", "c"))


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        (None, "no training image is labelled 'b'; add some"),
        ([0, 1, 1], "none of the 2 images labelled 'b' can be read; mend them"),
    ],
)
def test_nobody_is_told_to_read_one_class_only(listed: list[int] | None, told: str) -> None:
    every = None if listed is None else torch.tensor(listed)
    with pytest.raises(DataError) as raised:
        check_every_class(torch.tensor([0]), ["a", "b"], every)
    assert str(raised.value) == told


def test_a_data_set_prints_on_a_line() -> None:
    """Not with the mean of each of a thousand features."""
    assert repr(load("digits")) == (
        "DatasetSplits(digits: train 1,438 of 1 x 8 x 8 in 10 classes, "
        "test 359 of 1 x 8 x 8 in 10 classes)"
    )
