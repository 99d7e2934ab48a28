"""From an image file to pixels of one size, and back to a picture."""

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.Image import Resampling

from drpl.data.address import Region, find_region, read_inside, split_address
from drpl.data.threads import start_threads
from drpl.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

Pixels = NDArray[np.uint8]

# The formats of photos, and no others: some of Pillow's start other programs, or are seldom tried.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "AVIF", "HEIF")
MOST_PIXELS = 100_000_000  # of an image that is read: 400 MB while it is decoded
AT_ONCE = 40_000_000  # pixels of the images that threads decode together, unless one has more
THREADS = 8  # decoding waits on disks as much as on cores
LARGE = 20_000_000  # pixels of an image that is converted in bands
ORIENTATION = 0x0112  # of EXIF: how the camera was held
BAND = 2_000_000  # pixels of it that are converted at once


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
    """An image of any size, of which no more than its first bytes are read yet.

    Of an address that means a region it is the whole image.
    """
    file = split_address(path)[0]
    if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113
        raise DataError("it is no file, but a folder, a pipe or a device")  # reading could hang
    inside = read_inside(path)
    with _no_limit_of_pillow:
        return Image.open(file if inside is None else io.BytesIO(inside), formats=list_formats())


@cache
def list_formats() -> tuple[str, ...]:
    """The formats that can be read here; HEIC where the package pillow-heif is."""
    with suppress(ImportError):
        from pillow_heif import register_heif_opener

        register_heif_opener()
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def start_decoders() -> ThreadPoolExecutor:
    """Threads that decode, or read headers.

    What they need is imported before: where memory ends within a thread's import, it leaves the
    lock of that module behind, for which the other threads would wait for ever.
    """
    list_formats()
    return start_threads(THREADS)


@contextmanager
def open_image(path: Path | str, side: int) -> Iterator[Image.Image]:
    """A file to be decoded at `side` pixels a side or more, if it is not too large for that."""
    region = find_region(path)
    with open_file(path) as file:
        if not region:  # a region needs the whole in its own size
            file.draft(None, (side, side))  # None: in its own mode
        pixels = file.width * file.height
        if pixels > MOST_PIXELS:
            raise DataError(
                f"it has {pixels / 1e6:.0f} million pixels; at most {MOST_PIXELS / 1e6:.0f} "
                "million are read"
            )
        with _budget.take(pixels):
            yield file if region is None else cut_region(file, region)


def cut_region(file: Image.Image, region: Region) -> Image.Image:
    """The part of a region that is inside of the image, whose remarks it keeps."""
    left, top, right, bottom = region
    box = (left, top, min(right, file.width), min(bottom, file.height))
    if box[0] >= box[2] or box[1] >= box[3]:
        width, height = file.size
        raise DataError(f"its region is outside of the image of {width} x {height} pixels")
    return file.crop(box)


class _Budget:
    """Threads that decode a large image each would need many times the memory of one."""

    def __init__(self) -> None:
        self.free, self.changed = AT_ONCE, Condition()

    @contextmanager
    def take(self, pixels: int) -> Iterator[None]:
        """Wait until there is room for so many."""
        pixels = min(pixels, AT_ONCE)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= pixels)
            self.free -= pixels
        try:
            yield
        finally:
            with self.changed:
                self.free += pixels
                self.changed.notify_all()


_budget = _Budget()


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
    brightest = find_top(file)
    rows = max(1, BAND // (width * down)) * down
    small: Image.Image | None = None
    for top in range(0, height, rows):
        band = file.crop((0, top, width, min(top + rows, height)))
        flat = flatten(band, brightest).reduce((across, down))
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
    region = find_region(path)
    with open_file(path) as image:
        sides = image.size if not region else (region[2] - region[0], region[3] - region[1])
        return min(*sides, *image.size), is_grey(image)


def upright(file: Image.Image) -> Image.Image:
    """The first frame, turned as its camera meant it, in 8 bits, on white where transparent."""
    with suppress(Exception):  # a viewer shows an image whose remarks are damaged, too
        ImageOps.exif_transpose(file, in_place=True)
    return flatten(file)


def find_top(file: Image.Image) -> float | None:
    """The largest value of an image of more than 8 bits."""
    if not file.mode.startswith(("I", "F")):
        return None
    return float(np.nanmax(np.nan_to_num(file.getextrema(), posinf=255, neginf=0)))


def flatten(file: Image.Image, top: float | None = None) -> Image.Image:
    """In 8 bits, grey or RGB, on white where transparent.

    `top` is the largest value of the whole image, if this is a part of one with more than 8 bits.
    """
    if file.mode.startswith(("I", "F")):  # 16 or 32 bits, or floats (PNG, TIFF)
        return Image.fromarray(_scale(np.asarray(file), find_top(file) if top is None else top))
    if file.has_transparency_data:
        image = file.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return file if file.mode in ("L", "RGB") else file.convert("L" if is_grey(file) else "RGB")


def _scale(values: NDArray[Any], top: float | None) -> Pixels:
    """Values in 8 bits: floats up to 1 fill them, as do 16 bits; what needs more, up to `top`."""
    top = top or 0.0
    if values.dtype.kind == "f":
        values = np.nan_to_num(values, posinf=top, neginf=0)
        if top <= 1:
            values, top = values * 255, 255.0
    if top > 65535:
        values, top = values * (255 / top), 255.0
    whole = np.rint(values).clip(0, 65535).astype(np.uint16)
    small: Pixels = np.minimum(whole >> 8 if top > 255 else whole, 255).astype(np.uint8)
    return small


def is_grey(image: Image.Image) -> bool:
    """Whether a file holds no colour by its mode."""
    return image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")


def explain(error: Exception) -> str:
    """Pillow's complaint, so that a user understands it."""
    text = str(error)
    if "cannot identify" in text:
        if text.rstrip("'").lower().endswith((".heic", ".heif")):
            return "HEIC needs the package pillow-heif, which is not here; install it or use JPEG"
        return "it is not an image that can be read"
    return text.splitlines()[0] if text else type(error).__name__
