"""Copies of pictures as people make them: mirrored, saved again, scaled, cropped."""

import io
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from PIL import Image
from PIL.Image import Resampling, Transpose
from torch import Tensor

from drpl.data.decoding import load_thumbnail, to_picture, to_square
from drpl.data.images import Images, list_files
from drpl.randomness import rng

LARGEST = 512  # pixels of the longer side of a file's picture
QUALITY = 40  # of the JPEG: a poor one
SCALE = 0.5
KEPT = (0.9, 0.95)  # share of each side that a crop keeps, between these
KINDS = ("mirrored", "recompressed", "resized", "cropped")


def make_copies(images: Images, index: Tensor, kind: str, sides: tuple[int, ...]) -> list[Tensor]:
    """Copies of the images at `index`, as squares of several sizes. Each uint8 [B, 3, S, S]"""
    change = _choose(kind)
    # A copy in an array must have been scaled to the size of the others; a file need not.
    in_files = list_files(images, index[:1]) is not None
    squares: list[list[Tensor]] = [[] for _ in sides]
    for picture in open_pictures(images, index):
        copy = change(picture)
        copy = copy if in_files else copy.resize(picture.size, Resampling.BILINEAR)
        for side, made in zip(sides, squares, strict=True):
            made.append(torch.from_numpy(to_square(copy.copy(), side, 3).copy()))
    return [torch.stack(made) for made in squares]


def open_pictures(images: Images, index: Tensor) -> Iterator[Image.Image]:
    """Images as Pillow has them, those of files with their own aspect."""
    files = list_files(images, index)
    if files is None:
        for pixels in images.load(index):
            yield Image.fromarray(to_picture(pixels[:3] if len(pixels) > 3 else pixels))
    else:
        for file in files:
            yield load_thumbnail(file, LARGEST)


def _choose(kind: str) -> Callable[[Image.Image], Image.Image]:
    """What makes a copy of that kind."""
    if kind == "mirrored":
        return lambda picture: picture.transpose(Transpose.FLIP_LEFT_RIGHT)
    if kind == "cropped":
        return partial(_crop, draws=rng("copies"))
    return {"recompressed": _recompress, "resized": _resize}[kind]


def _recompress(picture: Image.Image) -> Image.Image:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=QUALITY)
    return Image.open(content)


def _resize(picture: Image.Image) -> Image.Image:
    width, height = (max(1, round(side * SCALE)) for side in picture.size)
    return picture.resize((width, height), Resampling.BICUBIC)


def _crop(picture: Image.Image, draws: torch.Generator) -> Image.Image:
    """A part that is cut out at random."""
    size = np.array(picture.size)
    kept, place = torch.rand(2, 2, generator=draws).numpy()
    part = np.maximum(1, np.rint(size * (KEPT[0] + (KEPT[1] - KEPT[0]) * kept))).astype(int)
    left, top = np.floor((size - part) * place + place).astype(int)
    return picture.crop((int(left), int(top), int(left + part[0]), int(top + part[1])))
