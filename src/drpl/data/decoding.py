"""From an image file to pixels of one size, and back to a picture."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.Image import Resampling

from drpl.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

Pixels = NDArray[np.uint8]

MOST_PIXELS = 100_000_000  # of an image that is read: 400 MB while it is decoded
LARGE = 20_000_000  # pixels of an image that is decoded while no other such image is
ORIENTATION = 0x0112  # of EXIF: how the camera was held
BAND = 2_000_000  # pixels of it that are converted at once
_one_large = Lock()


def decode(path: str, size: int, channels: int) -> Pixels:
    """One file as [C, size, size]; the aspect is not kept, as in the paper's WebVision."""
    # A JPEG costs less at 1/2, 1/4 or 1/8 of its size. With twice the pixels that are wanted
    # the result stays as close to the true averages as a bicubic one of the whole.
    with open_image(path, 2 * size) as file:
        width, height = file.size
        return to_square(shrink(file, width // (2 * size), height // (2 * size)), size, channels)


def load_thumbnail(path: Path | str, side: int) -> Image.Image:
    """A file as an upright picture of at most `side` pixels a side, its aspect kept."""
    with open_image(path, 2 * side) as file:
        times = max(file.size) // (2 * side)
        image = upright(shrink(file, times, times))
        image.thumbnail((side, side))
        image.load()  # a small image is not read until here, and the file is about to be closed
        return image


def open_file(path: Path | str) -> Image.Image:
    """An image of any size, of which no more than its first bytes are read yet."""
    with _no_limit_of_pillow:
        return Image.open(path)


@contextmanager
def open_image(path: Path | str, side: int) -> Iterator[Image.Image]:
    """A file to be decoded at `side` pixels a side or more, if it is not too large for that."""
    with open_file(path) as file:
        file.draft(None, (side, side))  # None: in its own mode
        pixels = file.width * file.height
        if pixels > MOST_PIXELS:
            raise DataError(
                f"it has {pixels / 1e6:.0f} million pixels; at most {MOST_PIXELS / 1e6:.0f} "
                "million are read"
            )
        # Threads that decode a large image each would need many times the memory of one.
        with _one_large if pixels > LARGE else nullcontext():
            yield file


class _NoLimitOfPillow:
    """Pillow warns of large images and refuses larger ones as it opens them; here that waits.

    Its limit is one for the whole process, so the last thread to leave puts it back.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.before = Lock(), 0, Image.MAX_IMAGE_PIXELS

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                Image.MAX_IMAGE_PIXELS = self.before


_no_limit_of_pillow = _NoLimitOfPillow()


def shrink(file: Image.Image, across: int, down: int) -> Image.Image:
    """A large image reduced that many times, in 8 bits; others as they are.

    It is converted band by band, so that there is no second copy in full size.
    """
    if file.width * file.height <= LARGE or max(across, down) < 2:
        return file
    across, down = max(1, across), max(1, down)
    width, height = file.size
    deep = file.mode.startswith("I") and np.max(file.getextrema()) > 255
    rows = max(1, BAND // (width * down)) * down
    small: Image.Image | None = None
    for top in range(0, height, rows):
        band = file.crop((0, top, width, min(top + rows, height)))
        flat = flatten(band, deep).reduce((across, down))
        small = small or Image.new(flat.mode, (flat.width, -(-height // down)))
        small.paste(flat, (0, top // down))
    assert small is not None  # noqa: S101  an image has rows
    # The last column and row may stand for fewer pixels than the others do.
    exact = (width / across, height / down)
    if small.size != exact:
        sides = (int(exact[0]), int(exact[1]))
        small = small.resize(sides, Resampling.HAMMING, (0, 0, *exact))
    small.getexif()[ORIENTATION] = file.getexif().get(ORIENTATION, 1)
    return small


def to_picture(pixels: "Tensor") -> NDArray[Any]:
    """Stored pixels [C, H, W] as Pillow wants them: uint8 [H, W] or [H, W, 3]."""
    return pixels.permute(1, 2, 0).squeeze(2).cpu().numpy()


def to_square(file: Image.Image, size: int, channels: int) -> Pixels:
    """An opened image as [C, size, size]."""
    image = upright(file)
    smooth = Resampling.HAMMING if min(image.size) >= size else Resampling.BILINEAR
    flat = image.resize((size, size), smooth).convert("L" if channels == 1 else "RGB")
    return np.asarray(flat).reshape(size, size, channels).transpose(2, 0, 1)


def read_header(path: str) -> tuple[int, bool]:
    """The shorter side of an image and whether it is grey, from a file's first bytes."""
    with open_file(path) as image:
        return min(image.size), is_grey(image)


def upright(file: Image.Image) -> Image.Image:
    """The first frame, turned as its camera meant it, in 8 bits, on white where transparent."""
    ImageOps.exif_transpose(file, in_place=True)
    return flatten(file)


def flatten(file: Image.Image, deep: bool | None = None) -> Image.Image:
    """In 8 bits, grey or RGB, on white where transparent.

    `deep` says of a part of an image whether the whole uses more than 8 of its 16 bits.
    """
    if file.mode.startswith("I"):  # 16 bits (PNG, TIFF)
        values: NDArray[Any] = np.asarray(file).astype(np.int64)
        deep = values.max() > 255 if deep is None else deep
        return Image.fromarray((values >> 8 if deep else values).clip(0, 255).astype(np.uint8))
    if file.has_transparency_data:
        image = file.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return file if file.mode in ("L", "RGB") else file.convert("L" if is_grey(file) else "RGB")


def is_grey(image: Image.Image) -> bool:
    """Whether a file holds no colour by its mode."""
    return image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")


def explain(error: Exception) -> str:
    """Pillow's complaint, so that a user understands it."""
    text = str(error)
    if "cannot identify" in text:
        return "it is not an image that can be read"
    return text.splitlines()[0] if text else type(error).__name__
