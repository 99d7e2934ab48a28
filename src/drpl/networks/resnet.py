"""ResNet-18 and ResNet-50 as for ImageNet: He et al., "Deep Residual Learning".

The stride of a bottleneck is in its 3 x 3 convolution, as in all common implementations.
"""

from torch import Tensor, nn
from torch.nn.functional import relu

from drpl.networks.layers import Pointwise, StagedNetwork, check_images, make_unit


class Residual(nn.Module):
    """ReLU of a branch plus its input, which is projected where the shapes differ."""

    def __init__(self, channels: int, out: int, stride: int, *units: list[nn.Module]) -> None:
        super().__init__()
        layers = [layer for unit in units for layer in (*unit, nn.ReLU())]
        self.branch = nn.Sequential(*layers[:-1])  # the last ReLU is that of the sum
        self.shortcut = (
            nn.Identity()
            if stride == 1 and channels == out
            else nn.Sequential(Pointwise(channels, out, stride), nn.BatchNorm2d(out))
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H / stride, W / stride]."""
        return relu(self.branch(x) + self.shortcut(x))


def _make_basic(channels: int, width: int, stride: int) -> Residual:
    """3 x 3, 3 x 3."""
    units = make_unit(channels, width, 3, stride), make_unit(width, width, 3)
    return Residual(channels, width, stride, *units)


def _make_bottleneck(channels: int, width: int, stride: int) -> Residual:
    """1 x 1, 3 x 3, 1 x 1 to four times the width."""
    narrow, across = make_unit(channels, width, 1), make_unit(width, width, 3, stride)
    return Residual(channels, 4 * width, stride, narrow, across, make_unit(width, 4 * width, 1))


def _make_stem(channels: int, width: int) -> nn.Sequential:
    """7 x 7 and a pool, each halving the size."""
    pool = nn.MaxPool2d(3, 2, padding=1)
    return nn.Sequential(*make_unit(channels, width, 7, 2), nn.ReLU(), pool)


def resnet18(shape: tuple[int, ...], classes: int, width: int) -> StagedNetwork:
    """Two basic blocks a stage; width 64 is the standard."""
    check_images("resnet18", shape)
    stem = _make_stem(shape[0], width)
    return StagedNetwork(stem, _make_basic, (2, 2, 2, 2), width, classes)


def resnet50(shape: tuple[int, ...], classes: int, width: int) -> StagedNetwork:
    """Bottlenecks, 3, 4, 6 and 3 of them; width 64 is the standard."""
    check_images("resnet50", shape)
    stem = _make_stem(shape[0], width)
    return StagedNetwork(stem, _make_bottleneck, (3, 4, 6, 3), width, classes, growth=4)
