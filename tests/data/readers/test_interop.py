import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from drpl.data.dataset import DatasetSplits
from drpl.data.readers.arrays import arrays
from drpl.data.readers.interop import from_huggingface, from_torch
from drpl.errors import DataError


class Pictures(Dataset[Any]):
    """Map-style, with pictures of Pillow."""

    classes = ("dark", "light")

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        return Image.new("RGB", (self.sizes[i],) * 2, (i, i, 200)), i % 2


def test_torch_tensors() -> None:
    pixels = torch.rand(6, 3, 8, 8)
    data = from_torch(TensorDataset(pixels, torch.arange(6) % 2), ["no", "yes"])
    assert data.train.classes == ("no", "yes")
    assert data.train.images.shape == (3, 8, 8)
    expected = (pixels * 255).round().to(torch.uint8)
    assert torch.equal(data.train.images.load(torch.arange(6)), expected)
    vectors = from_torch(TensorDataset(torch.randn(6, 5), torch.arange(6) % 3))
    assert vectors.train.images.shape == (5,)


def test_torch_pictures() -> None:
    data = from_torch(Pictures([8, 8, 8]), test=Pictures([8, 8]), name="mine")
    assert (data.name, data.train.classes) == ("mine", ("dark", "light"))
    assert data.test is not None
    assert data.test.images.shape == (3, 8, 8)
    assert data.train.images.load(torch.tensor([2]))[0, :, 0, 0].tolist() == [2, 2, 200]
    with pytest.raises(DataError, match=r"image 1 has shape \(9, 9, 3\)"):
        from_torch(Pictures([8, 9]))
    assert from_torch(Pictures([8, 9]), size=8).train.images.shape == (3, 8, 8)


def test_torch_sets_that_cannot_be_used() -> None:
    with pytest.raises(DataError, match="should be an image and a label"):
        from_torch(TensorDataset(torch.zeros(3, 4)))
    with pytest.raises(DataError, match="no images"):
        from_torch(Pictures([]))
    with pytest.raises(DataError, match="pixels must be in"):
        from_torch(TensorDataset(torch.randn(4, 3, 8, 8) * 3 - 9, torch.arange(4) % 2))


class Names:
    names = ("dark", "light")


class Rows:
    """What a data set of Hugging Face looks like from outside."""

    column_names = ("img", "label")
    features = {"img": None, "label": Names()}  # noqa: RUF012

    def __iter__(self) -> Any:
        return ({"img": Image.new("L", (8, 8), 9 * k), "label": k % 2} for k in range(4))


def test_hugging_face_by_its_shape() -> None:
    data = from_huggingface(Rows(), image="img", test=Rows())
    assert data.train.classes == ("dark", "light")
    assert data.train.images.shape == (1, 8, 8)
    assert data.test is not None
    with pytest.raises(DataError, match="has the columns img, label; say which"):
        from_huggingface(Rows())


def test_hugging_face_itself() -> None:
    datasets = pytest.importorskip("datasets")
    pixels = [Image.fromarray(np.full((8, 8, 3), 40 * k, np.uint8)) for k in range(4)]
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])}
    )
    content = {"image": pixels, "label": [0, 0, 1, 1]}
    data = from_huggingface(datasets.Dataset.from_dict(content, features=features))
    assert data.train.classes == ("dark", "light")
    assert data.train.images.load(torch.tensor([3]))[0, 0, 0, 0] == 120


def test_out_to_hugging_face_and_back(tiny: DatasetSplits) -> None:
    datasets = pytest.importorskip("datasets")
    there = tiny.train.to_huggingface()
    assert isinstance(there.features["label"], datasets.ClassLabel)
    back = from_huggingface(there).train
    every = torch.arange(len(tiny.train))
    assert back.classes == tiny.train.classes
    assert torch.equal(back.labels, tiny.train.labels)
    assert torch.equal(back.images.load(every), tiny.train.images.load(every))


def test_vectors_out_to_hugging_face_and_back() -> None:
    pytest.importorskip("datasets")
    x = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)
    data = arrays(x, np.arange(20) % 2, classes=["a", "b"]).train
    back = from_huggingface(data.to_huggingface(), image="features").train
    assert torch.equal(back.images.load(torch.arange(20)), torch.from_numpy(x))


def test_what_hugging_face_cannot_hold(
    tiny: DatasetSplits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"drpl\[huggingface\]"):
        tiny.train.to_huggingface()
    monkeypatch.setitem(sys.modules, "datasets", ModuleType("datasets"))
    with pytest.raises(DataError, match="same name"):
        replace(tiny.train, classes=("a", "a", "b")).to_huggingface()
