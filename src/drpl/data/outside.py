"""Images of other classes: brought to a data set's shape, put beside its own or in their place."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from drpl.data import sources as sources
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import Images, TensorImages
from drpl.errors import DataError

LUMA = (0.299, 0.587, 0.114)  # the weights of Pillow's conversion to grey


class Assembled:
    """Rows of two sources in any order: row r of `first`, or row -1 - r of `second` for r < 0."""

    def __init__(self, first: Images, second: Images, rows: Tensor) -> None:
        self.first, self.second, self.rows = first, second, rows  # rows: [N]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first source, which the second shares."""
        return self.first.shape

    @property
    def ahead(self) -> int:
        """As many batches as the slower source wants."""
        return max(self.first.ahead, self.second.ahead)

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, index: Tensor) -> Tensor:
        """Each row from its source."""
        rows = self.rows[index.cpu()]
        own = rows >= 0
        if bool(own.all()):
            return self.first.load(rows)
        others = self.second.load(-1 - rows[~own])
        loaded = others.new_empty((len(rows), *self.shape))
        loaded[~own] = others
        if bool(own.any()):
            loaded[own] = self.first.load(rows[own])
        return loaded


class Fitted:
    """Images brought to another size and number of channels as they are loaded."""

    def __init__(self, images: Images, shape: tuple[int, ...]) -> None:
        self.images, self.shape, self.ahead = images, shape, images.ahead

    def __len__(self) -> int:
        return len(self.images)

    def load(self, index: Tensor) -> Tensor:
        """uint8 [B, C, H, W] of the wanted shape."""
        pixels = recoloured(self.images.load(index).float(), self.shape[0])
        if pixels.shape[2:] != self.shape[1:]:
            pixels = interpolate(pixels, self.shape[1:], mode="bilinear", antialias=True)
        return pixels.round().clamp(0, 255).to(torch.uint8)


def recoloured(pixels: Tensor, channels: int) -> Tensor:
    """Float images made grey or given three equal channels. [B, channels, H, W]"""
    if pixels.shape[1] == channels:
        return pixels
    if channels == 1:
        return (pixels * torch.tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)
    return pixels.expand(-1, channels, -1, -1)


def fitted(images: Images, shape: tuple[int, ...]) -> Images:
    """The images in that shape, or an error where there is no way."""
    if images.shape == shape:
        return images
    pictures = len(images.shape) == len(shape) == 3
    if not pictures or {images.shape[0], shape[0]} not in ({1}, {3}, {1, 3}):
        raise DataError(
            f"out-of-distribution images have shape {images.shape} and cannot be brought to "
            f"{shape}; give images (or vectors) like those of the data set"
        )
    return Fitted(images, shape)


def replaced(images: Images, others: Images, rows: Tensor) -> Images:
    """The images, with row -1 - r of `others` where `rows` has r < 0; a copy if in memory."""
    assembled = Assembled(images, fitted(others, images.shape), rows)
    if isinstance(images, TensorImages):
        return TensorImages(assembled.load(torch.arange(len(rows))))
    return assembled


def with_outside(data: DatasetSplits, what: str | DatasetSplits | Dataset | None) -> DatasetSplits:
    """The data with the training images of another set as its outside, if one is given."""
    if what is None:
        return data
    origin = data.origin and replace(data.origin, ood=what if isinstance(what, str) else None)
    if isinstance(what, str):
        shape = data.train.images.shape
        what = sources.load(what, sources.ReadOptions(size=shape[1] if len(shape) == 3 else None))
    outside = what if isinstance(what, Dataset) else what.train
    return replace(data, outside=outside, origin=origin)
