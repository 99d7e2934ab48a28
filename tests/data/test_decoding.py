"""Thumbnails, pictures, and images of very many pixels."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data import decoding
from drpl.data.decoding import decode, load_thumbnail, read_header, to_picture
from drpl.data.images import FileImages
from drpl.errors import DataError


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


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of more than 2,000 pixels are large, and those of more than 20,000 are refused."""
    monkeypatch.setattr(decoding, "LARGE", 2_000)
    monkeypatch.setattr(decoding, "BAND", 3_000)
    monkeypatch.setattr(decoding, "MOST_PIXELS", 20_000)


def paint(mode: str, size: tuple[int, int] = (150, 120)) -> Image.Image:
    """A picture with two ramps, so that turned or shifted parts are seen."""
    across, down = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    layers = [across, down, 255 - across, np.where(down > 128, 255, 60)]
    image = Image.fromarray(np.stack(layers, 2).astype(np.uint8))
    if mode == "I;16":
        return Image.fromarray((across * 200).astype(np.uint16))
    if mode == "P with transparency":
        flat = image.convert("RGB").quantize(64)
        flat.info["transparency"] = 3
        return flat
    return image.convert("RGB").convert(mode) if mode != "RGBA" else image


MODES = ["1", "L", "LA", "P", "P with transparency", "RGB", "RGBA", "I;16"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_large_image_in_bands_is_like_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, channels: int
) -> None:
    path = str(tmp_path / "x.png")
    more: dict[str, Any] = {"transparency": 3} if "with" in mode else {}
    paint(mode).save(path, **more)
    whole = decode(path, 8, channels).astype(int)
    monkeypatch.setattr(decoding, "LARGE", 2_000)
    monkeypatch.setattr(decoding, "BAND", 3_000)
    banded = decode(path, 8, channels).astype(int)
    # Pillow samples images of one bit or of a palette, and averages the others.
    far = 256 if mode == "1" else 40 if mode.startswith("P") else 9
    assert np.abs(banded - whole).max() <= far
    assert np.abs(banded - whole).mean() <= far / 3
    assert banded.std() > 20


@pytest.mark.usefixtures("few")
def test_a_large_image_is_turned_as_its_camera_meant_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    paint("RGB").save(tmp_path / "turned.png", exif=exif)
    paint("RGB").transpose(Image.Transpose.ROTATE_270).save(tmp_path / "upright.png")
    turned, wanted = (decode(str(tmp_path / f"{n}.png"), 8, 3) for n in ("turned", "upright"))
    assert np.abs(turned.astype(int) - wanted).max() <= 9
    assert load_thumbnail(tmp_path / "turned.png", 20).size == (16, 20)


@pytest.mark.usefixtures("few")
def test_too_many_pixels_are_refused_with_a_sentence(tmp_path: Path) -> None:
    paint("L", (200, 150)).save(tmp_path / "x.png")
    with pytest.raises(DataError, match=r"it has 0 million pixels; at most 0 million are read"):
        decode(str(tmp_path / "x.png"), 8, 3)
    paint("L", (200, 150)).save(tmp_path / "x.jpg")
    assert decode(str(tmp_path / "x.jpg"), 8, 3).shape == (3, 8, 8)  # read at an eighth
    images = FileImages(["x.png", "x.jpg"], 8, 3, tmp_path)
    pixels, broken = images.attempt(torch.arange(2))
    assert len(pixels) == 1
    assert broken[0].startswith(f"{tmp_path / 'x.png'}: it has ")


def test_images_beyond_the_limit_of_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its warning nor its error is seen, and its limit is as it was."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    for size in ((50, 30), (300, 200)):
        Image.new("RGB", size, (200, 100, 50)).save(tmp_path / "x.png")
        assert decode(str(tmp_path / "x.png"), 8, 3)[:, 4, 4].tolist() == [200, 100, 50]
        assert read_header(str(tmp_path / "x.png")) == (size[1], False)
    FileImages(["x.png"] * 40, 8, 3, tmp_path).load(torch.arange(40))
    assert Image.MAX_IMAGE_PIXELS == 1_000


def test_large_images_are_decoded_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "AT_ONCE", 2_000)
    monkeypatch.setattr(decoding, "_budget", decoding._Budget())
    inside, most = [0], [0]

    def watch(file: Image.Image, across: int, down: int) -> Image.Image:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.005)
        inside[0] -= 1
        return file

    monkeypatch.setattr(decoding, "shrink", watch)
    paint("L").save(tmp_path / "large.png")
    FileImages(["large.png"] * 8, 8, 1, tmp_path).load(torch.arange(8))
    assert most == [1]
    paint("L", (20, 20)).save(tmp_path / "small.png")
    FileImages(["small.png"] * 16, 8, 1, tmp_path).load(torch.arange(16))
    assert most[0] > 1


@pytest.mark.parametrize("mode", ["1", "P"])
def test_a_hundred_million_pixels_need_no_second_copy(tmp_path: Path, mode: str) -> None:
    """108 million are refused; 99 million take the memory of a byte each and little more."""
    Image.new(mode, (12_000, 9_000)).save(tmp_path / "more.png")
    with pytest.raises(DataError, match="it has 108 million pixels; at most 100 million are read"):
        decode(str(tmp_path / "more.png"), 64, 3)
    Image.new(mode, (11_000, 9_000)).save(tmp_path / "x.png")
    code = (
        "import resource, sys; from drpl.data.decoding import decode;"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024;"
        "before = used(); decode(sys.argv[1], 64, 3); print(used() - before)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "x.png")]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(made.stdout) < 160  # megabytes; as RGBA it would be 400 more


IMPORTS = """
import sys, torch
from drpl.data.images import FileImages
images = FileImages(sys.argv[1:], 8, 3)
before = set(sys.modules)
images.load(torch.arange(len(images)))
print(*sorted(set(sys.modules) - before))
"""


def test_threads_that_decode_import_nothing(tmp_path: Path) -> None:
    """Where memory ended within a thread's import, the other threads waited for its lock."""
    paths = [tmp_path / f"x{suffix}" for suffix in (".png", ".jpg", ".bmp", ".gif", ".tif")]
    for path in paths:
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.new("RGB", (20, 30)).save(path, exif=exif)
    words = [sys.executable, "-c", IMPORTS, *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
