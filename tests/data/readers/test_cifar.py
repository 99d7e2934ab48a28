"""CIFAR-10 and CIFAR-100 on small files of the same formats."""

from pathlib import Path

import pytest
import torch

from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import dump, make_cifar10, make_cifar100, rows


def test_cifar10_by_name_and_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_cifar10(tmp_path / "cifar-10-batches-py")
    data = load("cifar10", ReadOptions(data_dir=tmp_path))
    assert data.test is not None
    assert (data.name, len(data.train), len(data.test), data.notes) == ("cifar10", 100, 10, ())
    assert data.train.classes[3] == "class 3"
    assert data.train.labels[:3].tolist() == [1, 2, 3]
    first = data.train.images.load(torch.tensor([20]))[0]
    assert torch.equal(first.flatten(), torch.from_numpy(rows(20, seed=2)[0]))  # red, green, blue
    assert data.std == (0.2023, 0.1994, 0.2010)
    assert load(str(root)).name == "cifar-10-batches-py"
    monkeypatch.setenv("DRPL_DATA", str(tmp_path))
    assert len(load("cifar10").train) == 100


def test_a_part_of_cifar10_says_so(tmp_path: Path) -> None:
    make_cifar10(tmp_path, batches=2)
    (note,) = load("cifar10", ReadOptions(data_dir=tmp_path)).notes
    assert "has batch 1, 2 of 5: 40 training images, not all" in note


def test_cifar100_has_fine_labels(tmp_path: Path) -> None:
    root = make_cifar100(tmp_path / "cifar-100-python")
    data = load("cifar100", ReadOptions(data_dir=tmp_path))
    assert data.train.classes[99] == "fine 99"
    assert data.train.labels[:3].tolist() == [99, 98, 97]
    assert load(str(root)).name == "cifar-100-python"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"labels": [0]}, "lacks 'data'"),
        ({"data": rows(2)}, "lacks 'labels'"),
        ({"data": rows(2)[:, :-1], "labels": [0, 1]}, "three square planes"),
        ({"data": rows(2).astype(float), "labels": [0, 1]}, "three square planes"),
        ({"data": "text", "labels": [0, 1]}, "three square planes"),
        ({"data": rows(2), "labels": [0]}, "one whole number for each of 2 images"),
        ({"data": rows(2), "labels": [0, "1"]}, "one whole number"),
        ({"data": rows(2), "labels": [0, 2**70]}, "one whole number"),
        ({"data": rows(2), "labels": [0, 11]}, "label 11 of image 1 is outside 0..9"),
        ({"data": rows(2, 16), "labels": [0, 1]}, "different sizes"),
    ],
)
def test_batches_that_cannot_be_used(tmp_path: Path, content: object, sentence: str) -> None:
    make_cifar10(tmp_path, batches=2)
    dump(tmp_path / "data_batch_2", content)
    if sentence.startswith("label"):
        (tmp_path / "data_batch_1").unlink()
    with pytest.raises(DataError, match=sentence):
        load(str(tmp_path))


def test_class_names_that_are_none(tmp_path: Path) -> None:
    dump(tmp_path / "batches.meta", {"label_names": 3})
    dump(tmp_path / "data_batch_1", {})
    with pytest.raises(DataError, match="should list the names"):
        load("cifar10", ReadOptions(data_dir=tmp_path))
