"""From an image file to pixels of one size."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.Image import Resampling

Pixels = NDArray[np.uint8]


def decode(path: str, size: int, channels: int) -> Pixels:
    """One file as [C, size, size]; the aspect is not kept, as in the paper's WebVision."""
    with Image.open(path) as file:
        # A JPEG costs less at 1/2, 1/4 or 1/8 of its size. With twice the pixels that are wanted
        # the result stays as close to the true averages as a bicubic one of the whole.
        file.draft(None, (2 * size, 2 * size))  # None: in its own mode
        return squared(file, size, channels)


def squared(file: Image.Image, size: int, channels: int) -> Pixels:
    """An opened image as [C, size, size]."""
    image = upright(file)
    smooth = Resampling.HAMMING if min(image.size) >= size else Resampling.BILINEAR
    flat = image.resize((size, size), smooth).convert("L" if channels == 1 else "RGB")
    return np.asarray(flat).reshape(size, size, channels).transpose(2, 0, 1)


def load_thumbnail(path: str | Path, side: int) -> Image.Image:
    """One file as an image of at most `side` pixels a side, turned as its camera meant it."""
    with Image.open(path) as file:
        file.draft(None, (2 * side, 2 * side))  # a JPEG costs less at half its size
        image = upright(file)
        image.thumbnail((side, side))
        image.load()  # before the file is closed: one that was small enough is not read yet
        return image


def head(path: str) -> tuple[int, bool]:
    """The shorter side of an image and whether it is grey, from a file's first bytes."""
    with Image.open(path) as image:
        return min(image.size), is_grey(image)


def upright(file: Image.Image) -> Image.Image:
    """The first frame, turned as its camera meant it, in 8 bits, on white where transparent."""
    ImageOps.exif_transpose(file, in_place=True)
    if file.mode.startswith("I"):  # 16 bits (PNG, TIFF)
        deep: NDArray[Any] = np.asarray(file).astype(np.int64)
        return Image.fromarray(
            (deep >> 8 if deep.max() > 255 else deep).clip(0, 255).astype(np.uint8)
        )
    if file.has_transparency_data:
        image = file.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return file if file.mode in ("L", "RGB") else file.convert("L" if is_grey(file) else "RGB")


def is_grey(image: Image.Image) -> bool:
    """Whether a file holds no colour by its mode."""
    return image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")


def reason(error: Exception) -> str:
    """Pillow's complaint in a user's words."""
    text = str(error)
    if "cannot identify" in text:
        return "it is not an image that can be read"
    return text.splitlines()[0] if text else type(error).__name__
