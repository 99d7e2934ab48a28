"""Images for a browser, whatever the format of their files."""

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from drpl.data.decoding import load_thumbnail

EncodedImage = tuple[bytes, str]  # and its media type

LOSSLESS = 128  # pixels a side up to which nothing of an image may be lost


def encode_file(path: Path | None, side: int) -> EncodedImage:
    """An image of at most `side` pixels a side, and its media type; a sign if it cannot be read.

    What leaves here was decoded and encoded anew: no byte of a file gets out as it is.
    """
    return _encode(open_thumbnail(path, side))


def open_thumbnail(path: Path | None, side: int) -> Image.Image:
    """An image of at most `side` pixels a side; a sign if it cannot be read."""
    if path is None:
        return _draw_sign(side)
    try:
        return load_thumbnail(path, side)
    except MemoryError:
        raise
    except Exception:  # a damaged file makes decoders raise almost anything
        return _draw_sign(side)


def _draw_sign(side: int) -> Image.Image:
    """What is shown in place of an image that cannot be read."""
    image = Image.new("RGB", (side, side), "#888888")
    font, middle = ImageFont.load_default(side / 8), (side / 2, side / 2)
    draw = ImageDraw.Draw(image)
    draw.text(middle, "cannot be\nread", "white", font, anchor="mm", align="center")
    return image


def _encode(image: Image.Image) -> EncodedImage:
    """PNG for small images, whose every pixel counts, and JPEG for large ones."""
    content = io.BytesIO()
    image = image if image.mode in ("L", "RGB") else image.convert("RGB")
    image.info = {}  # profiles and remarks of the file would be saved as well
    kind = "PNG" if max(image.size) <= LOSSLESS else "JPEG"
    image.save(content, kind, quality=88)
    return content.getvalue(), f"image/{kind.lower()}"
