"""What several networks share."""

from collections.abc import Callable

from torch import Tensor, nn

from drpl.errors import ConfigError

BlockMaker = Callable[[int, int, int], nn.Module]  # (channels, width, stride) -> block


def check_images(name: str, shape: tuple[int, ...], least: int = 1) -> None:
    """Raise if the data are vectors, or images smaller than `least` pixels a side."""
    if len(shape) != 3:
        raise ConfigError(f"{name} is for images, the data are vectors of {shape[0]}; use mlp")
    if min(shape[1:]) < least:
        raise ConfigError(
            f"{name} needs images of at least {least} pixels a side, got {shape[1]} x {shape[2]}; "
            "read them larger with --size"
        )


def make_unit(channels: int, out: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """Convolution and batch normalisation."""
    conv = nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(out)]


class Pointwise(nn.Conv2d):
    """A 1 x 1 convolution of every `step`-th pixel.

    The pixels are taken out first: on CPUs torch 2.13 writes beyond its memory in the backward pass
    of one that strides over many pixels of few channels.
    """

    def __init__(self, channels: int, out: int, step: int) -> None:
        super().__init__(channels, out, 1, bias=False)
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H / step, W / step]."""
        return super().forward(x[:, :, :: self.step, :: self.step])


class StagedNetwork(nn.Module):
    """Stem, stages of blocks, global average pool, linear classifier.

    Each stage has twice the width of the one before and half its size. A block gives `growth`
    times its width of channels.
    """

    def __init__(
        self,
        stem: nn.Module,
        make_block: BlockMaker,
        counts: tuple[int, ...],
        width: int,
        classes: int,
        growth: int = 1,
    ) -> None:
        super().__init__()
        self.stem, self.stages = stem, nn.ModuleList()
        channels = width
        for number, count in enumerate(counts):
            stage, inner = nn.Sequential(), width * 2**number
            for k in range(count):
                stage.append(make_block(channels, inner, 2 if k == 0 and number > 0 else 1))
                channels = growth * inner
            self.stages.append(stage)
        self.classify = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def blocks(self) -> list[nn.Module]:
        """What the features by depth come from, see `networks.depth`."""
        return list(self.stages)

    def forward(self, x: Tensor) -> Tensor:
        """Images [B, channels, H, W] -> logits [B, classes]."""
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        logits: Tensor = self.classify(x.mean((2, 3)))
        return logits
