"""ResNet-18 and ResNet-50 as for ImageNet: He et al., "Deep Residual Learning".

The stride of a bottleneck is in its 3 x 3 convolution, as in all common implementations.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import relu

from drpl.networks.layers import Pointwise, Staged, check_images

Branch = Callable[[int, int, int], list[nn.Module]]  # (channels, width, stride) -> layers


def _make_unit(channels: int, out: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """Convolution and batch normalisation."""
    conv = nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(out)]


def _make_basic(channels: int, width: int, stride: int) -> list[nn.Module]:
    """3 x 3, 3 x 3."""
    return [*_make_unit(channels, width, 3, stride), nn.ReLU(), *_make_unit(width, width, 3)]


def _make_bottleneck(channels: int, width: int, stride: int) -> list[nn.Module]:
    """1 x 1, 3 x 3, 1 x 1 to four times the width."""
    inner = [
        *_make_unit(channels, width, 1),
        nn.ReLU(),
        *_make_unit(width, width, 3, stride),
        nn.ReLU(),
    ]
    return [*inner, *_make_unit(width, 4 * width, 1)]


class Residual(nn.Module):
    """ReLU of a branch plus its input, which is projected where the shapes differ."""

    def __init__(self, branch: list[nn.Module], channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and channels == out
            else nn.Sequential(Pointwise(channels, out, stride), nn.BatchNorm2d(out))
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H / stride, W / stride]."""
        return relu(self.branch(x) + self.shortcut(x))


class ResNet(Staged):
    """Stem, four stages of blocks, global average pool, linear classifier."""

    def __init__(
        self,
        branch: Branch,
        growth: int,
        blocks: tuple[int, ...],
        channels: int,
        classes: int,
        width: int,
    ) -> None:
        stem = nn.Sequential(
            *_make_unit(channels, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)
        )
        stages: list[nn.Module] = []
        before = width
        for number, count in enumerate(blocks):
            stage, inner = nn.Sequential(), width * 2**number
            for k in range(count):
                stride = 2 if k == 0 and number > 0 else 1
                layers = branch(before, inner, stride)
                stage.append(Residual(layers, before, growth * inner, stride))
                before = growth * inner
            stages.append(stage)
        super().__init__(stem, stages, before, classes)


def resnet18(shape: tuple[int, ...], classes: int, width: int) -> ResNet:
    """Two basic blocks a stage; width 64 is the standard."""
    check_images("resnet18", shape)
    return ResNet(_make_basic, 1, (2, 2, 2, 2), shape[0], classes, width)


def resnet50(shape: tuple[int, ...], classes: int, width: int) -> ResNet:
    """Bottlenecks, 3, 4, 6 and 3 of them; width 64 is the standard."""
    check_images("resnet50", shape)
    return ResNet(_make_bottleneck, 4, (3, 4, 6, 3), shape[0], classes, width)
