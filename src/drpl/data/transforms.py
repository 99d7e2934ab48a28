"""Augmentation as a function of pixels and uniform numbers, on whole batches.

A sample's view depends on its row of uniforms alone: not on its batch, its process or a worker.
"""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad


class Transform(Protocol):
    """From stored pixels to what a network sees."""

    @property
    def num_uniforms(self) -> int:
        """How many uniform numbers it wants per image."""
        ...

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """uint8 [B, C, H, W] (or float [B, D]) and uniforms [B, num_uniforms] -> float."""
        ...


@dataclass(frozen=True)
class Normalise:
    """No augmentation: cut out the centre, subtract the mean, divide by the deviation.

    Vectors are then brought to fewer dimensions, where there is a basis.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0  # share of each side that is kept
    basis: Tensor | None = field(default=None, compare=False)  # [D, K]

    @property
    def num_uniforms(self) -> int:
        """None."""
        return 0

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """Normalised floats of the centre."""
        return self.scale(pixels if pixels.ndim == 2 else self.crop_centre(pixels))

    def crop_centre(self, pixels: Tensor) -> Tensor:
        """The part of stored images that a network sees. [B, C, H, W]"""
        _, height, width = pixels.shape[1:]
        _, rows, columns = self.output_shape(pixels.shape[1:])
        top, left = (height - rows) // 2, (width - columns) // 2
        return pixels[:, :, top : top + rows, left : left + columns]

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that a network sees of images (or vectors) stored in `shape`."""
        if len(shape) == 1:
            return shape if self.basis is None else (self.basis.shape[1],)
        return (shape[0], *(max(1, round(side * self.crop)) for side in shape[1:]))

    def scale(self, pixels: Tensor) -> Tensor:
        """Normalised floats of all pixels; images in channels-last order."""
        mean = torch.tensor(self.mean, device=pixels.device)
        std = torch.tensor(self.std, device=pixels.device)
        if pixels.ndim == 2:
            vectors = (pixels.float() - mean) / std
            return vectors if self.basis is None else vectors @ self.basis.to(vectors.device)
        scale, shift = 1 / (255 * std), -mean / std
        floats = pixels.to(torch.float32, memory_format=torch.channels_last)
        return floats.mul_(scale.view(-1, 1, 1)).add_(shift.view(-1, 1, 1))


@dataclass(frozen=True)
class Mirrored:
    """Images mirrored left to right, then as the other transform has them."""

    transform: Transform

    @property
    def num_uniforms(self) -> int:
        """Those of the other one."""
        return self.transform.num_uniforms

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """The mirrored images as a network sees them."""
        return self.transform(pixels.flip(3), u)


@dataclass(frozen=True)
class CropFlip:
    """Zero-pad, crop at random to what `normalise` keeps, flip at random, then normalise."""

    padding: int
    flip: bool
    normalise: Normalise

    @property
    def num_uniforms(self) -> int:
        """Row, column, flip."""
        return 3

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """One random view of each image."""
        return self.normalise.scale(self.cut_out(pixels, u))

    def cut_out(self, pixels: Tensor, u: Tensor) -> Tensor:
        """The same before it is normalised: the pixels of the crop. [B, C, H, W]"""
        _, height, width = self.normalise.output_shape(pixels.shape[1:])
        down, across = (
            stored + 2 * self.padding - kept + 1  # places that a crop can begin
            for stored, kept in zip(pixels.shape[2:], (height, width), strict=True)
        )
        u = u.to(pixels.device)
        rows = (u[:, :1] * down).long() + torch.arange(height, device=pixels.device)  # [B, H]
        columns = torch.arange(width, device=pixels.device).expand(len(u), width)
        if self.flip:
            columns = torch.where(u[:, 2:] < 0.5, columns, columns.flip(1))
        columns = (u[:, 1:2] * across).long() + columns  # [B, W]
        # One gather does crop and flip, and leaves the channels last.
        padded = pad(pixels, [self.padding] * 4).permute(0, 2, 3, 1)
        image = torch.arange(len(u), device=pixels.device).view(-1, 1, 1)
        views = padded[image, rows[:, :, None], columns[:, None, :]]  # [B, H, W, C]
        return views.permute(0, 3, 1, 2)
