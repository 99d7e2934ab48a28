"""Thumbnails and pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.decoding import load_thumbnail, to_picture


@pytest.mark.parametrize(("size", "wanted"), [((300, 100), (64, 21)), ((20, 12), (20, 12))])
@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_thumbnail_keeps_the_aspect_and_outlives_its_file(
    tmp_path: Path, size: tuple[int, int], wanted: tuple[int, int], suffix: str
) -> None:
    path = tmp_path / f"x{suffix}"
    Image.new("RGB", size, (200, 100, 50)).save(path)
    image = load_thumbnail(path, 64)
    path.unlink()
    assert image.size == wanted
    pixels = np.asarray(image).reshape(-1, 3).astype(int)
    assert np.abs(pixels - (200, 100, 50)).max() <= 3


def test_a_thumbnail_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    Image.new("L", (40, 20)).save(tmp_path / "x.jpg", exif=exif)
    assert load_thumbnail(tmp_path / "x.jpg", 64).size == (20, 40)


def test_pixels_become_pictures() -> None:
    colour = torch.arange(24, dtype=torch.uint8).view(3, 2, 4)
    assert to_picture(colour).shape == (2, 4, 3)
    assert to_picture(colour)[1, 2].tolist() == [6, 14, 22]
    assert to_picture(colour[:1]).shape == (2, 4)
