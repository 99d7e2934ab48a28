"""WebVision on small files of the same format."""

from pathlib import Path

import pytest
import torch

from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_webvision


def test_webvision(tmp_path: Path) -> None:
    root = make_webvision(tmp_path / "webvision")
    data = load("webvision", ReadOptions(data_dir=tmp_path))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (10, 3)  # without the class beyond the first 50
    assert data.train.images.shape == (3, 256, 256)
    assert data.train.classes == ("tench", "crane (n2)", "crane (n3)")
    assert data.train.paths is not None
    assert data.train.paths[0] == "google/q0000/0.jpg"
    assert data.train.images.load(torch.tensor([1, 9])).shape == (2, 3, 256, 256)
    google = load("webvision:google", ReadOptions(size=16, data_dir=tmp_path))
    assert (google.name, len(google.train)) == ("webvision:google", 5)
    assert google.train.images.shape == (3, 16, 16)
    assert load(str(root)).name == "webvision"
    with pytest.raises(DataError, match="did you mean 'google'"):
        load("webvision:goggle", ReadOptions(data_dir=tmp_path))
    (root / "google" / "q0000" / "0.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 10 images that .* lists are not there"):
        load("webvision", ReadOptions(data_dir=tmp_path))
    (root / "info" / "train_filelist_google.txt").write_text("a.jpg zero\n")
    with pytest.raises(DataError, match="line 1: wanted are a path and a label"):
        load("webvision", ReadOptions(data_dir=tmp_path))
