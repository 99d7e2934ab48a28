"""How alike two pictures are, if one may be mirrored and cropped to fit the other."""

from functools import cache
from itertools import product

import torch
from torch import Tensor

SIDE = 64  # pixels of the grey pictures that are compared
SEEN = 16  # pixels that they are compared in: more would tell a copy from its original
CUTS = 9  # amounts that may be cut off at either side, up to:
DEEPEST = 0.1
BRIGHTNESS = 0.05  # what is left of it, so that empty pictures can be told apart
BATCH = 128  # pairs at once


def standardise(pixels: Tensor) -> Tensor:
    """Pictures [..., C, H, W] as vectors [..., C * H * W] of unit length, or zero.

    Products of two are correlations, apart from a little of their brightness.
    """
    flat = pixels.flatten(-3).float() - 127.5
    flat = flat - (1 - BRIGHTNESS) * flat.mean(-1, keepdim=True)
    unit: Tensor = flat / flat.norm(dim=-1, keepdim=True).clamp(min=1)
    return unit


def correlate_aligned(first: Tensor, second: Tensor) -> Tensor:
    """The correlation of grey pictures uint8 [P, 64, 64] where they fit each other best. [P]

    Either of the two may be the part that was cut out of the other, or out of its mirror image.
    """
    found = [torch.empty(0)]
    for a, b in zip(first.split(BATCH), second.split(BATCH), strict=True):
        views = [(a, b), (b, a), (a.flip(2), b), (b.flip(2), a)]
        every = [_fit(whole.float(), part.float()) for whole, part in views]
        found.append(torch.stack(every).amax(0))
    return torch.cat(found)


def _fit(whole: Tensor, part: Tensor) -> Tensor:
    """The best correlation of `part` with a crop of `whole`; columns and rows in turn. [P]"""
    crops, near, coarse = _build_crops(), _list_near(), _list_coarse()
    target = standardise((crops[0] @ part @ crops[0].T)[:, None])[:, None]
    views = _cut_each(crops[0] @ whole, crops[coarse]).transpose(2, 3)
    across = coarse[_correlate(views, target)[1]]  # which crop of columns
    narrow = whole @ crops[across].transpose(1, 2)
    down = coarse[_correlate(_cut_each(narrow.transpose(1, 2), crops[coarse]), target)[1]]
    options = near[across]
    views = (crops[down] @ whole)[:, None] @ crops[options].transpose(2, 3)
    _, at = _correlate(views, target)
    across = options.gather(1, at[:, None]).squeeze(1)
    views = crops[near[down]] @ (whole @ crops[across].transpose(1, 2))[:, None]
    return _correlate(views, target)[0]


def _cut_each(lines: Tensor, crops: Tensor) -> Tensor:
    """All lines [P, L, 64] by each of some crops, in one product. [P, K, 16, L]"""
    cut = (lines @ crops.flatten(0, 1).T).transpose(1, 2)
    return cut.view(len(lines), *crops.shape[:2], lines.shape[1])


def _correlate(views: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The highest correlation among views [P, K, S, S], and which of them has it. Both [P]"""
    values, at = (standardise(views[:, :, None]) * target).sum(2).max(1)
    return values, at


@cache
def _build_crops() -> Tensor:
    """What brings 64 columns, without some at either side, to 16 by averaging. [CUTS², 16, 64]"""
    column = torch.arange(SIDE)
    crops = []
    for left, right in product(torch.linspace(0, DEEPEST, CUTS).tolist(), repeat=2):
        edges = torch.linspace(left, 1 - right, SEEN + 1) * SIDE
        begin, end = edges[:-1, None], edges[1:, None]
        shares = (torch.minimum(end, column + 1) - torch.maximum(begin, column)).clamp(min=0)
        crops.append(shares / shares.sum(1, keepdim=True))
    return torch.stack(crops)


@cache
def _list_coarse() -> Tensor:
    """Every other crop."""
    return torch.arange(CUTS**2).view(CUTS, CUTS)[::2, ::2].flatten()


@cache
def _list_near() -> Tensor:
    """For each crop those that cut at most a step more or less at either side. [CUTS², 9]"""
    cut = torch.arange(CUTS)
    steps = (cut[:, None] + torch.arange(-1, 2)).clamp(0, CUTS - 1)  # [CUTS, 3]
    pairs = steps[:, None, :, None] * CUTS + steps[None, :, None, :]
    return pairs.reshape(CUTS**2, 9)
