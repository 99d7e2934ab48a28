"""Inception-ResNet-v2: Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual
Connections on Learning". DivideMix's network for WebVision. Without the auxiliary classifier.
"""

from itertools import pairwise
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from drpl.networks.layers import check_images

LEAST = 75  # pixels a side: fewer leave nothing after the last reduction


class C(NamedTuple):
    """A convolution in the tables below; the even ones, of stride 1, keep the size."""

    out: int
    kernel: int | tuple[int, int] = 1
    stride: int = 1
    padded: bool = True


Layers = tuple[C | str, ...]  # a pool: "shrink" halves the size by maxima, "mean" keeps it
Branched = tuple[Layers, ...]  # chains side by side
STEM: Layers = (C(32, 3, 2), C(32, 3, 1, False), C(64, 3), "shrink", C(80), C(192, 3, 1, False))
MIXED_5B: Branched = ((C(96),), (C(48), C(64, 5)), (C(64), C(96, 3), C(96, 3)), ("mean", C(64)))
MIXED_6A: Branched = ((C(384, 3, 2),), (C(256), C(256, 3), C(384, 3, 2)), ("shrink",))
MIXED_7A: Branched = (
    (C(256), C(384, 3, 2)),
    (C(256), C(288, 3, 2)),
    (C(256), C(288, 3), C(320, 3, 2)),
    ("shrink",),
)
BLOCK_35: Branched = ((C(32),), (C(32), C(32, 3)), (C(32), C(48, 3), C(64, 3)))
BLOCK_17: Branched = ((C(192),), (C(128), C(160, (1, 7)), C(192, (7, 1))))
BLOCK_8: Branched = ((C(192),), (C(192), C(224, (1, 3)), C(256, (3, 1))))


class Branches(nn.Module):
    """Chains of layers side by side, their outputs stacked along the channels."""

    def __init__(self, channels: int, branches: Branched, width: int) -> None:
        super().__init__()
        chains = [_make_chain(channels, layers, width) for layers in branches]
        self.branches = nn.ModuleList(layers for layers, _ in chains)
        self.out = sum(out for _, out in chains)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H', W']."""
        return torch.cat([branch(x) for branch in self.branches], 1)


class Block(nn.Module):
    """The input plus a scaled part of what its branches make of it."""

    def __init__(
        self, channels: int, branches: Branched, width: int, scale: float, active: bool = True
    ) -> None:
        super().__init__()
        self.branches = Branches(channels, branches, width)
        self.project = nn.Conv2d(self.branches.out, channels, 1)
        self.scale, self.active = scale, active

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> the same shape."""
        out: Tensor = x + self.scale * self.project(self.branches(x))
        return relu(out) if self.active else out


class InceptionResNet(nn.Sequential):
    """Layers one after the other, the last three being pool, flatten and linear classifier."""

    @property
    def classify(self) -> nn.Linear:
        """What the pooled features go through."""
        return cast("nn.Linear", self[-1])

    def blocks(self) -> list[nn.Module]:
        """What comes before each reduction and before the pool, see `networks.depth`."""
        parts = (Branches, nn.AdaptiveAvgPool2d)
        return [before for before, after in pairwise(self) if isinstance(after, parts)]


def _make_chain(channels: int, layers: Layers, width: int) -> tuple[nn.Sequential, int]:
    """Layers one after the other, and how many channels come out."""
    net = nn.Sequential()
    for layer in layers:
        if isinstance(layer, str):
            mean = nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
            net.append(mean if layer == "mean" else nn.MaxPool2d(3, 2))
            continue
        out = max(1, round(layer.out * width / 64))
        sides = (layer.kernel,) * 2 if isinstance(layer.kernel, int) else layer.kernel
        even = layer.padded and layer.stride == 1
        padding = (sides[0] // 2, sides[1] // 2) if even else (0, 0)
        conv = nn.Conv2d(channels, out, sides, layer.stride, padding, bias=False)
        net.extend([conv, nn.BatchNorm2d(out, eps=1e-3), nn.ReLU()])
        channels = out
    return net, channels


def inception_resnet_v2(shape: tuple[int, ...], classes: int, width: int) -> InceptionResNet:
    """For images of 299 x 299 pixels and others from 75 up; width 64 is the standard."""
    check_images("inception_resnet_v2", shape, LEAST)
    stem, channels = _make_chain(shape[0], (*STEM, "shrink"), width)
    net = InceptionResNet(stem)
    parts = (
        (MIXED_5B, BLOCK_35, 10, 0.17),
        (MIXED_6A, BLOCK_17, 20, 0.1),
        (MIXED_7A, BLOCK_8, 9, 0.2),
    )
    for reduction, block, count, scale in parts:
        mixed = Branches(channels, reduction, width)
        channels = mixed.out
        net.extend([mixed, *(Block(channels, block, width, scale) for _ in range(count))])
    net.append(Block(channels, BLOCK_8, width, 1.0, active=False))
    last, channels = _make_chain(channels, (C(1536),), width)
    net.extend([last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)])
    return net
