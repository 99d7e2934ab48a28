"""EfficientNet-Lite: Tan and Le's EfficientNet without squeeze-and-excitation, and with ReLU6.

Google's release has ImageNet weights for it that are small and quick on CPUs. They were trained
with TensorFlow's padding, which this keeps: where a stride does not fit, the right and lower
edges get the larger share.
"""

from math import ceil
from typing import Self

from torch import Tensor, nn
from torch.nn.functional import pad

from drpl.errors import ConfigError
from drpl.networks.layers import check_images

# Each stage: kernel, stride, growth inside a block, channels, blocks.
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STEM, HEAD = 32, 1280  # channels; the variants do not scale them
MULTIPLE = 8  # that numbers of channels are rounded to


class SameConv(nn.Conv2d):
    """A convolution whose output has ceil(size / stride) pixels a side."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, ceil(H / stride), ceil(W / stride)]."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        edges: list[int] = []
        for side in (x.shape[3], x.shape[2]):
            missing = max((ceil(side / stride) - 1) * stride + kernel - side, 0)
            edges += [missing // 2, missing - missing // 2]
        return super().forward(pad(x, edges))


def _make_unit(
    channels: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Convolution and batch normalisation, with the release's constants."""
    conv: nn.Module
    if stride == 1:
        conv = nn.Conv2d(channels, out, kernel, padding=kernel // 2, groups=groups, bias=False)
    else:
        conv = SameConv(channels, out, kernel, stride, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out, eps=1e-3, momentum=0.01)]


class InvertedBottleneck(nn.Module):
    """Widen, filter each channel, narrow; the input is added where the shapes are the same."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, growth: int) -> None:
        super().__init__()
        inner = channels * growth
        widen = [*_make_unit(channels, inner), nn.ReLU6()] if growth > 1 else []
        filter_each = [*_make_unit(inner, inner, kernel, stride, inner), nn.ReLU6()]
        self.branch = nn.Sequential(*widen, *filter_each, *_make_unit(inner, out))
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H / stride, W / stride]."""
        y: Tensor = self.branch(x)
        return x + y if self.adds else y


class EfficientNetLite(nn.Module):
    """Stem, seven stages of inverted bottlenecks, head, global average pool, linear classifier."""

    def __init__(self, wide: float, deep: float, dropout: float, channels: int, classes: int):
        super().__init__()
        self.stem = nn.Sequential(*_make_unit(channels, STEM, 3, 2), nn.ReLU6())
        self.stages, before = nn.ModuleList(), STEM
        for number, (kernel, stride, growth, width, count) in enumerate(STAGES):
            scaled, stage = _round_channels(width * wide), nn.Sequential()
            # The first and the last stage keep their one block, however deep the network is.
            repeats = count if number in (0, len(STAGES) - 1) else ceil(count * deep)
            for k in range(repeats):
                step = stride if k == 0 else 1
                stage.append(InvertedBottleneck(before, scaled, kernel, step, growth))
                before = scaled
            self.stages.append(stage)
        self.head = nn.Sequential(*_make_unit(before, HEAD), nn.ReLU6())
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(HEAD, classes)
        self.frozen: list[nn.Module] = []

    def freeze(self, count: int) -> None:
        """Keep the weights and statistics of the first parts: the stem, then the stages."""
        parts = [self.stem, *self.stages, self.head]
        if count > len(parts):
            raise ConfigError(f"the network has {len(parts)} parts; {count} cannot be frozen")
        self.frozen = parts[:count]
        for part in self.frozen:
            part.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Batch normalisation of frozen parts goes by its statistics in training too."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self

    def blocks(self) -> list[nn.Module]:
        """What the features by depth come from, see `networks.depth`."""
        return [*list(self.stages)[1:], self.head]

    def compute_map(self, x: Tensor) -> Tensor:
        """The last map. [B, 1280, H / 32, W / 32]"""
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        last: Tensor = self.head(x)
        return last

    def forward(self, x: Tensor) -> Tensor:
        """Images [B, channels, H, W] -> logits [B, classes]."""
        logits: Tensor = self.classify(self.dropout(self.compute_map(x).mean((2, 3))))
        return logits


def _round_channels(count: float) -> int:
    """The nearest multiple of eight, and no more than a tenth below."""
    rounded = max(MULTIPLE, int(count + MULTIPLE / 2) // MULTIPLE * MULTIPLE)
    return rounded + MULTIPLE if rounded < 0.9 * count else rounded


def lite0(shape: tuple[int, ...], classes: int, width: int) -> EfficientNetLite:
    """EfficientNet-Lite0: 1.0 wide, 1.0 deep; `width` is its own."""
    check_images("lite0", shape)
    return EfficientNetLite(1.0, 1.0, 0.2, shape[0], classes)


def lite2(shape: tuple[int, ...], classes: int, width: int) -> EfficientNetLite:
    """EfficientNet-Lite2: 1.1 wide, 1.2 deep; `width` is its own."""
    check_images("lite2", shape)
    return EfficientNetLite(1.1, 1.2, 0.3, shape[0], classes)
