from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drpl.data.dataset import DatasetSplits, Truth
from drpl.data.hold_out import set_aside
from drpl.data.images import FileImages
from drpl.data.readers.arrays import arrays
from drpl.data.selection import Chosen, Joined
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_idx, make_pictures


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
    data = set_aside(noisy, ["left"])
    assert data.outside is not None
    assert len(data.outside) == 24  # with the one that was called middle
    assert len(data.train) == 47  # without the one that was called left
    assert data.train.truth is not None
    assert torch.equal(data.train.truth.labels, data.train.labels)
    assert "dropped 1 images" in data.notes[0]


def test_more_can_be_put_outside(tiny: DatasetSplits) -> None:
    more = arrays(torch.zeros(4, 1, 8, 8, dtype=torch.uint8).numpy(), ["p", "q"] * 2)
    data = set_aside(replace(tiny, outside=more.train), ["middle"])
    assert data.outside is not None
    assert data.outside.classes == ("p", "q", "middle")
    assert data.outside.labels[:5].tolist() == [0, 1, 0, 1, 2]
    mixed = data.outside.images.load(torch.tensor([4, 0, 5]))
    assert mixed.flatten(1).sum(1).bool().tolist() == [True, False, True]


def test_classes_that_cannot_be_set_aside(tiny: DatasetSplits) -> None:
    with pytest.raises(DataError, match="did you mean 'middle'"):
        set_aside(tiny, ["midle"])
    with pytest.raises(DataError, match="at least two must stay"):
        set_aside(tiny, ["middle", "top"])
    assert set_aside(tiny, ()) is tiny


def test_files_stay_files(tmp_path: Path) -> None:
    make_pictures(tmp_path, [f"{k}.png" for k in range(4)])
    files = FileImages(sorted(tmp_path.glob("*.png")), 8, 3)
    some = Chosen(files, torch.tensor([3, 1]))
    both = Joined(some, files)
    assert (len(some), len(both), both.shape, both.ahead) == (2, 6, (3, 8, 8), 2)
    index = torch.tensor([5, 0, 2, 1])
    assert torch.equal(both.load(index), files.load(torch.tensor([3, 3, 0, 1])))
    with pytest.raises(DataError, match="cannot be joined"):
        Joined(files, FileImages(files.paths, 4, 3))
