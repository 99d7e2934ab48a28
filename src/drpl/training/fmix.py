"""FMix (Harris et al., 2020): pairs of images joined along the outlines of smooth random shapes."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from drpl.training.losses import draw_weight


class MaskedMix(NamedTuple):
    """Which part of each row is its own, and whose is the rest."""

    mask: Tensor  # the shape of a row, or [1, H, W]; 1 where it is its own
    partner: Tensor  # [B] a permutation

    def blend(self, x: Tensor) -> Tensor:
        """Each row joined with its partner's. [B, ...]"""
        return torch.where(self.mask.bool(), x, x[self.partner])

    def blend_targets(self, targets: Tensor) -> Tensor:
        """By the shares of the mask. [B, C]"""
        return torch.lerp(targets[self.partner], targets, float(self.mask.mean()))


def draw_masked_mix(x: Tensor, alpha: float, decay: float, rng: Generator) -> MaskedMix:
    """One mask for the batch x, whose share ~ Beta(alpha, alpha).

    The higher `decay`, the smoother the shapes. The numbers of vectors have no places, so a random
    share of them is taken.
    """
    share = draw_weight(alpha, rng)
    noise = torch.rand(x.shape[1:], generator=rng) if x.dim() == 2 else _draw_shape(x, decay, rng)
    own = noise.flatten().argsort(descending=True)[: round(share * noise.numel())]
    mask = torch.zeros(noise.numel()).index_fill_(0, own, 1).view_as(noise)
    partner = torch.randperm(len(x), generator=rng)
    return MaskedMix(mask.to(x.device), partner.to(x.device))


def _draw_shape(x: Tensor, decay: float, rng: Generator) -> Tensor:
    """Noise whose high frequencies are weak. [1, H, W]"""
    height, width = x.shape[2:]
    down, across = torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)
    frequency = (down.square() + across.square()).sqrt().clamp(min=1 / max(height, width))
    parts = torch.randn(2, *frequency.shape, generator=rng) / frequency**decay
    noise: Tensor = torch.fft.irfft2(torch.complex(*parts), (height, width))
    return noise[None]
