"""Images for a browser, whatever the format of their files."""

import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from drpl.data.decoding import upright

LOSSLESS = 128  # pixels a side up to which nothing of an image may be lost


class Picture(NamedTuple):
    """An encoded image and its media type."""

    content: bytes
    kind: str


def picture(path: Path | None, side: int) -> Picture:
    """An image of at most `side` pixels a side; a sign if it cannot be read.

    What leaves here was decoded and encoded anew: no byte of a file gets out as it is.
    """
    if path is None:
        return sign(side)
    try:
        with Image.open(path) as file:
            file.draft(None, (2 * side, 2 * side))  # a JPEG costs less at half its size
            image = upright(file)
            image.thumbnail((side, side))
            return encoded(image)
    except MemoryError:
        raise
    except Exception:  # a damaged file makes decoders raise almost anything
        return sign(side)


@cache
def sign(side: int) -> Picture:
    """What is shown in place of an image that cannot be read."""
    image = Image.new("RGB", (side, side), "#888888")
    draw = ImageDraw.Draw(image)
    text = "cannot be\nread"
    font = ImageFont.load_default(side / 8)
    draw.text((side / 2, side / 2), text, "white", font, anchor="mm", align="center")
    return encoded(image)


def encoded(image: Image.Image) -> Picture:
    """PNG for small images, whose every pixel counts, and JPEG for large ones."""
    content = io.BytesIO()
    image = image if image.mode in ("L", "RGB") else image.convert("RGB")
    image.info = {}  # profiles and remarks of the file would be saved as well
    if max(image.size) <= LOSSLESS:
        image.save(content, "PNG")
        return Picture(content.getvalue(), "image/png")
    image.save(content, "JPEG", quality=88)
    return Picture(content.getvalue(), "image/jpeg")
