"""Augmentation as a function of pixels and uniform numbers, on whole batches.

A sample's view depends on its row of uniforms alone: not on its batch, its process or a worker.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad


class Augment(Protocol):
    """From stored pixels to what a network sees."""

    @property
    def draws(self) -> int:
        """How many uniform numbers it wants per image."""
        ...

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """uint8 [B, C, H, W] (or float [B, D]) and uniforms [B, draws] -> float."""
        ...


@dataclass(frozen=True)
class Normalise:
    """No augmentation: subtract the mean, divide by the deviation."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def draws(self) -> int:
        """None."""
        return 0

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """Normalised floats; images in channels-last order."""
        mean = torch.tensor(self.mean, device=pixels.device)
        std = torch.tensor(self.std, device=pixels.device)
        if pixels.ndim == 2:
            return (pixels.float() - mean) / std
        scale, shift = 1 / (255 * std), -mean / std
        floats = pixels.to(torch.float32, memory_format=torch.channels_last)
        return floats.mul_(scale.view(-1, 1, 1)).add_(shift.view(-1, 1, 1))


@dataclass(frozen=True)
class CropFlip:
    """Zero-pad, crop at random, flip at random, then normalise."""

    padding: int
    flip: bool
    normalise: Normalise

    @property
    def draws(self) -> int:
        """Row, column, flip."""
        return 3

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """One random view of each image."""
        height, width = pixels.shape[2:]
        reach = 2 * self.padding + 1
        u = u.to(pixels.device)
        rows = (u[:, :1] * reach).long() + torch.arange(height, device=pixels.device)  # [B, H]
        columns = torch.arange(width, device=pixels.device).expand(len(u), width)
        if self.flip:
            columns = torch.where(u[:, 2:] < 0.5, columns, columns.flip(1))
        columns = (u[:, 1:2] * reach).long() + columns  # [B, W]
        # One gather does crop and flip, and leaves the channels last.
        padded = pad(pixels, [self.padding] * 4).permute(0, 2, 3, 1)
        image = torch.arange(len(u), device=pixels.device).view(-1, 1, 1)
        views = padded[image, rows[:, :, None], columns[:, None, :]]  # [B, H, W, C]
        return self.normalise(views.permute(0, 3, 1, 2), u)
