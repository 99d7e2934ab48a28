"""Pictures that differ from each other as photos do: coloured spots on a coloured ground."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def draw_pictures(count: int, side: int, seed: int = 1) -> Tensor:
    """uint8 [count, 3, side, side]"""
    draws = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 6, 6, generator=draws)
    smooth = interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1)
    return (255 * smooth).round().to(torch.uint8)
