"""The PreAct ResNet-18 of the papers on label noise.

Two things set it apart from the textbook's: the identity shortcut carries the *activated* input,
and nothing normalises or activates the output of the last block.
"""

from torch import Tensor, nn
from torch.nn.functional import relu

from drpl.networks.layers import Pointwise, Staged, check_images


class PreActBlock(nn.Module):
    """BN, ReLU, conv, BN, ReLU, conv, plus a shortcut from the first activation."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.shortcut = (
            nn.Identity() if stride == 1 and channels == out else Pointwise(channels, out, stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H / stride, W / stride]."""
        active = relu(self.norm1(x))
        out: Tensor = self.conv2(relu(self.norm2(self.conv1(active)))) + self.shortcut(active)
        return out


class PreActResNet18(Staged):
    """A 3 x 3 stem and four stages of two blocks."""

    def __init__(self, channels: int, classes: int, width: int) -> None:
        stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        stages: list[nn.Module] = []
        before = width
        for out, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
            stages.append(nn.Sequential(PreActBlock(before, out, stride), PreActBlock(out, out, 1)))
            before = out
        super().__init__(stem, stages, before, classes)


def preact_resnet18(shape: tuple[int, ...], classes: int, width: int) -> PreActResNet18:
    """For images of any size and number of channels."""
    check_images("preact_resnet18", shape)
    return PreActResNet18(shape[0], classes, width)
