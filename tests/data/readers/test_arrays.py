"""Arrays in memory and in files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError


def test_arrays_of_all_kinds() -> None:
    rng = np.random.default_rng(1)
    grey = rng.integers(0, 256, (6, 8, 8), dtype=np.uint8)
    labels = np.array(["b", "a", "c"] * 2)
    data = arrays(grey, labels)
    assert data.train.classes == ("a", "b", "c")
    assert data.train.labels.tolist() == [1, 0, 2, 1, 0, 2]
    assert data.train.images.shape == (1, 8, 8)
    colour = rng.random((6, 8, 9, 3))
    last = arrays(colour, [0, 1] * 3).train.images
    first = arrays(colour.transpose(0, 3, 1, 2), [0, 1] * 3).train.images
    assert last.shape == first.shape == (3, 8, 9)
    every = torch.arange(6)
    assert torch.equal(last.load(every), first.load(every))
    vectors = arrays(rng.normal(size=(6, 5)), [0.0, 1.0] * 3, y_true=[0, 0, 0, 1, 1, 1])
    assert vectors.train.images.shape == (5,)
    assert vectors.train.truth is not None
    assert int(vectors.train.truth.is_noisy(vectors.train.labels).sum()) == 2


def test_npz(tmp_path: Path) -> None:
    x, y = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "set.npz", x=x, y=y, x_test=x, y_test=y, classes=np.array(["no", "yes"]))
    data = load(str(tmp_path / "set.npz"))
    assert (data.name, data.train.classes) == ("set", ("no", "yes"))
    assert data.test is not None


def test_a_class_of_a_file_that_no_image_has(tmp_path: Path) -> None:
    """The error says to choose the others, and that helps."""
    path, names = tmp_path / "set.npz", np.array(["no", "yes", "perhaps"])
    np.savez(path, x=np.zeros((4, 8, 8), np.uint8), y=np.array([0, 1, 0, 1]), classes=names)
    with pytest.raises(DataError, match=r"is labelled 'perhaps'; add some, or read .* \(--classes"):
        load(str(path))
    assert load(str(path), ReadOptions(classes=("no", "yes"))).train.classes == ("no", "yes")


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (np.zeros((3, 4)), [0, 1], "3 images but 2 labels"),
        (np.full((2, 4), np.nan), [0, 1], "contain NaN or infinity, first in image 0"),
        (np.zeros((2, 4)), [0, 0], "one class only"),
        (np.zeros((2, 4)), [0, 2], "no training image is labelled '1'"),
        (np.zeros((3, 4)), [0, -1, 1], "label -1 of image 1 is outside"),
        (np.zeros((2, 4)), [0.5, 1], "fractions"),
        (np.zeros((2, 4)), [np.nan, 1], "NaN"),
        (np.zeros((2, 4)), [[0], [1]], "one number or name"),
        (np.zeros((2, 1, 1, 1, 1)), [0, 1], "got shape"),
        (np.full((2, 4, 4), 300), [0, 1], "pixels must be in"),
        (np.array([["a"], ["b"]]), [0, 1], "must be numbers"),
        (np.zeros((0, 4)), np.zeros(0, int), "no images"),
    ],
)
def test_arrays_that_cannot_be_used(x: object, y: object, sentence: str) -> None:
    with pytest.raises(DataError) as error:
        arrays(x, y)  # type: ignore[arg-type]
    assert sentence in str(error.value)


def test_more_arrays_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="label 'c' is not one of the classes"):
        arrays(np.zeros((2, 4)), ["a", "c"], classes=["a", "b"])
    with pytest.raises(DataError, match="test images have shape"):
        arrays(np.zeros((2, 4)), [0, 1], np.zeros((2, 5)), [0, 1])
    (tmp_path / "bad.npz").write_text("no zip")
    with pytest.raises(DataError, match="cannot read"):
        load(str(tmp_path / "bad.npz"))
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="wanted are x and y"):
        load(str(tmp_path / "other.npz"))
