from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.dataset import check_labels
from drpl.data.holding import chosen_size
from drpl.data.readers.arrays import arrays
from drpl.data.readers.folder import folder
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError


def test_digits_are_embedded_and_split_once_and_for_all() -> None:
    data = load("digits")
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.train.images.shape == (1, 8, 8)
    assert torch.bincount(data.train.labels).min() > 120
    assert torch.equal(load("digits").train.labels, data.train.labels)
    assert data.train.labels[:8].tolist() == load("digits").train.labels[:8].tolist()
    assert int(data.train.images.load(torch.arange(100)).max()) == 255


def picture(mode: str, size: tuple[int, int] = (20, 12)) -> Image.Image:
    width, height = size
    ramp = np.linspace(0, 255, width * height).reshape(height, width).astype(np.uint8)
    grey = Image.fromarray(ramp)
    if mode == "I;16":
        return Image.fromarray(ramp.astype(np.uint16) * 257)
    if mode == "RGBA":
        image = grey.convert("RGBA")
        image.putalpha(Image.new("L", size, 0))  # all transparent: white
        return image
    return grey.convert(mode)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cat", "dög house"):
        (tmp_path / name).mkdir()
        picture("L").save(tmp_path / name / "grey.png")
        picture("P").save(tmp_path / name / "palette.png")
        picture("RGBA").save(tmp_path / name / "clear.png")
        picture("RGB").save(tmp_path / name / "colour.JPG", "JPEG")
        picture("RGB", (16, 16)).save(tmp_path / name / "modern.webp", lossless=True)
        picture("CMYK").save(tmp_path / name / "print.jpg")
        picture("1").save(tmp_path / name / "bits.png")
        picture("I;16").save(tmp_path / name / "deep.png")
        picture("LA").save(tmp_path / name / "veil.png")
    return tmp_path


def test_a_folder_of_odd_images(photos: Path) -> None:
    data = folder(photos)
    assert data.train.classes == ("cat", "dög house")
    assert data.train.images.shape == (3, 8, 8)
    assert len(data.train) == 18
    assert data.test is None
    assert data.train.paths is not None
    where = data.train.paths.index("cat/clear.png")
    assert int(data.train.images.load(torch.tensor([where])).min()) == 255  # transparent is white
    deep, grey = (data.train.paths.index(f"cat/{name}.png") for name in ("deep", "grey"))
    pair = data.train.images.load(torch.tensor([deep, grey])).float()
    assert float((pair[0] - pair[1]).abs().max()) <= 1  # 16 bits look like 8


def test_a_turned_photograph_is_set_upright(tmp_path: Path) -> None:
    upright = picture("RGB", (16, 16))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 270 degrees to show
    for name, turned in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        image = upright.rotate(90) if turned else upright
        image.save(tmp_path / name / "x.png", exif=exif if turned else None)
    data = folder(tmp_path, ReadOptions(size=16))
    a, b = data.train.images.load(torch.tensor([0, 1]))
    assert torch.equal(a, b)


def test_grey_folders_have_one_channel_and_their_own_test_part(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / part / name).mkdir(parents=True)
            picture("L").save(tmp_path / part / name / "x.png")
    data = folder(tmp_path)
    assert data.train.images.shape == (1, 8, 8)
    assert data.test is not None
    assert len(data.test) == 2
    assert data.train.paths == ("train/a/x.png", "train/b/x.png")


def test_size_suits_the_images() -> None:
    assert [chosen_size([side]) for side in (5, 28, 33, 500)] == [8, 24, 32, 64]


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


def test_more_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="label 'c' is not one of the classes"):
        arrays(np.zeros((2, 4)), ["a", "c"], classes=["a", "b"])
    with pytest.raises(DataError, match="test images have shape"):
        arrays(np.zeros((2, 4)), [0, 1], np.zeros((2, 5)), [0, 1])
    with pytest.raises(DataError, match="outside"):
        check_labels(torch.tensor([0, 5]), ["a", "b"], 2)
    (tmp_path / "bad.npz").write_text("no zip")
    with pytest.raises(DataError, match="cannot read"):
        load(str(tmp_path / "bad.npz"))
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="wanted are x and y"):
        load(str(tmp_path / "other.npz"))
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(DataError, match="neither a folder"):
        load(str(tmp_path / "text.txt"))
    with pytest.raises(DataError, match="did you mean 'digits'"):
        load("digts")
