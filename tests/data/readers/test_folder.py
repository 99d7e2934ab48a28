"""Folders of odd images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.readers.folder import folder
from drpl.data.sources import ReadOptions


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
