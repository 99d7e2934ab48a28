"""What several networks share."""

from torch import Tensor, nn

from drpl.errors import ConfigError


def check_images(name: str, shape: tuple[int, ...], least: int = 1) -> None:
    """Raise if the data are vectors, or images smaller than `least` pixels a side."""
    if len(shape) != 3:
        raise ConfigError(f"{name} is for images, the data are vectors of {shape[0]}; use mlp")
    if min(shape[1:]) < least:
        raise ConfigError(
            f"{name} needs images of at least {least} pixels a side, got {shape[1]} x {shape[2]}; "
            "read them larger with --size"
        )


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


class Staged(nn.Module):
    """Stem, stages, global average pool, linear classifier."""

    def __init__(
        self, stem: nn.Module, stages: list[nn.Module], features: int, classes: int
    ) -> None:
        super().__init__()
        self.stem, self.stages = stem, nn.ModuleList(stages)
        self.classify = nn.Linear(features, classes)
        _initialise(self)

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


def _initialise(net: nn.Module) -> None:
    """Draw every convolution from Kaiming's normal distribution, by its fan-out."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
