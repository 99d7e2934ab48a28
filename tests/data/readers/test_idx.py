"""Fashion-MNIST and other idx files."""

from pathlib import Path

import numpy as np
import pytest

from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import idx_bytes, make_idx


@pytest.mark.parametrize("packed", [False, True])
def test_fashion_mnist(tmp_path: Path, packed: bool) -> None:
    root = make_idx(tmp_path / "fashion-mnist", packed)
    data = load("fashion-mnist", ReadOptions(data_dir=tmp_path))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (30, 30)
    assert data.train.images.shape == (1, 9, 9)
    assert data.train.classes[9] == "Ankle boot"
    assert load(str(root)).train.classes[0] == "T-shirt/top"
    root.rename(tmp_path / "mnist")
    assert load(str(tmp_path / "mnist")).train.classes[9] == "9"


def test_idx_files_that_cannot_be_used(tmp_path: Path) -> None:
    make_idx(tmp_path)
    images = tmp_path / "train-images-idx3-ubyte"
    right = images.read_bytes()
    for content, sentence in (
        (b"", "no idx file"),
        (b"\0\0\x0d\3" + right[4:], "no idx file"),
        (right[:10], "no idx file|should hold"),
        (right[:-1], "should hold 2430 bytes after its header, but has 2429"),
        (right + b"x", "more than 2430"),
        (b"\0\0\x08\3" + b"\xff" * 12 + right[16:], "should hold"),
        (idx_bytes(np.zeros((0, 9, 9))), "hold no images"),
        (idx_bytes(np.zeros((29, 9, 9))), "29 images but 30 labels"),
    ):
        images.write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            load(str(tmp_path))
    images.rename(tmp_path / "train-images-idx3-ubyte.gz")
    with pytest.raises(DataError, match="cannot read"):
        load(str(tmp_path))
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError, match="there is neither"):
        load(str(tmp_path))
