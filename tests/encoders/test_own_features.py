"""Features that the user made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.encoders import draw_folder

X = np.arange(60, dtype=np.float32).reshape(20, 3)


def with_nan() -> Any:
    spoilt = X.copy()
    spoilt[[4, 7], 1] = np.nan
    return spoilt


def names(photos: Path) -> list[str]:
    """Files in the order in which they are read."""
    return [str(p.relative_to(photos)) for p in sorted(photos.rglob("*.png"))]


def read(photos: Path, path: Path) -> torch.Tensor:
    images = load(str(photos), ReadOptions(features=str(path))).train.images
    return images.load(torch.arange(len(images)))


def test_rows_in_the_order_of_the_images(photos: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", X)
    assert read(photos, tmp_path / "own.npy").numpy().tolist() == X.tolist()
    np.savez(tmp_path / "own.npz", x=X)
    data = load(str(photos), ReadOptions(features=str(tmp_path / "own.npz")))
    assert data.train.paths == tuple(names(photos))
    assert data.train.pictures is not None
    assert data.train.pictures.load(torch.arange(2)).shape[:2] == (2, 3)
    assert np.allclose(data.mean, X.mean(0))


@pytest.mark.parametrize("form", [str, lambda name: f"/elsewhere/{name}"])
def test_rows_by_the_names_of_the_files(
    photos: Path, tmp_path: Path, form: Callable[[str], str]
) -> None:
    order = np.random.default_rng(1).permutation(20)
    found = [form(names(photos)[k]) for k in order]
    np.savez(tmp_path / "own.npz", x=X[order], paths=[*found, form("oak/more.png")][:20])
    assert read(photos, tmp_path / "own.npz").numpy().tolist() == X.tolist()


def test_a_test_part_with_and_without_features(tmp_path: Path) -> None:
    draw_folder(tmp_path / "photos" / "train", 20)
    draw_folder(tmp_path / "photos" / "test", 6)
    np.savez(tmp_path / "own.npz", x=X, x_test=X[:6])
    options = ReadOptions(features=str(tmp_path / "own.npz"))
    test = load(str(tmp_path / "photos"), options).test
    assert test is not None
    assert test.images.load(torch.arange(6)).numpy().tolist() == X[:6].tolist()
    np.savez(tmp_path / "own.npz", x=X)
    data = load(str(tmp_path / "photos"), options)
    assert data.test is None
    assert "has no x_test; the test part is left out" in data.notes[0]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": X[:19]}, "x has 19 rows, but there are 20 images; there must be one for each"),
        ({"x": with_nan()}, "2 rows of x hold NaN or infinity, the first is row 4"),
        ({"x": X[:, 0]}, r"should be numbers \[images, features\], got float32 of shape \(20,\)"),
        ({"x": X.astype(str)}, r"should be numbers \[images, features\], got <U"),
        ({"features": X, "y": X}, "holds the arrays features, y; wanted is x, and x_test"),
        ({"x": X, "paths": ["ash/1.png"]}, "there are 1 paths for 20 rows of x; wanted is one"),
        ({"x": X, "paths": ["oak/1.png"] * 20}, r"has no row for the image ash/00000\.png"),
        ({"x": X, "paths": ["a/ash/00000.png"] * 20}, "has several rows for the image ash/00000"),
    ],
)
def test_mistakes(photos: Path, tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(DataError, match=rf"own\.npz.*{sentence}"):
        read(photos, tmp_path / "own.npz")


def test_files_that_cannot_be_read(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file of features nowhere\.npy"):
        read(photos, Path("nowhere.npy"))
    for name, content in (("a.npz", b"PK\3\4 no archive"), ("b.npy", b"nothing")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"cannot read .*{name}"):
            read(photos, tmp_path / name)
    np.save(tmp_path / "c.npy", np.array([None, {}]), allow_pickle=True)
    with pytest.raises(DataError, match=r"cannot read .*c\.npy"):
        read(photos, tmp_path / "c.npy")
