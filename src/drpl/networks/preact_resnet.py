"""The PreAct ResNet-18 of the papers on label noise.

Two things set it apart from the textbook's: the identity shortcut carries the *activated* input,
and nothing normalises or activates the output of the last block.
"""

from torch import Tensor, nn
from torch.nn.functional import relu

from drpl.networks.layers import Pointwise, StagedNetwork, check_images, make_unit


class PreActBlock(nn.Module):
    """BN, ReLU, conv, BN, ReLU, conv, plus a shortcut from the first activation."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1, self.norm2 = make_unit(channels, out, 3, stride)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.shortcut = (
            nn.Identity() if stride == 1 and channels == out else Pointwise(channels, out, stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, out, H / stride, W / stride]."""
        active = relu(self.norm1(x))
        out: Tensor = self.conv2(relu(self.norm2(self.conv1(active)))) + self.shortcut(active)
        return out


def preact_resnet18(shape: tuple[int, ...], classes: int, width: int) -> StagedNetwork:
    """For images of any size and number of channels: a 3 x 3 stem, four stages of two blocks."""
    check_images("preact_resnet18", shape)
    stem = nn.Sequential(*make_unit(shape[0], width, 3), nn.ReLU())
    return StagedNetwork(stem, PreActBlock, (2, 2, 2, 2), width, classes)
