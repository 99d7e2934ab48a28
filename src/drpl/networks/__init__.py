"""Networks by name: each is built for a shape of input and a number of classes."""

from typing import TYPE_CHECKING

from drpl.catalogue import Entry, find

if TYPE_CHECKING:
    from torch import nn

NETWORKS = {
    "preact_resnet18": Entry(
        "drpl.networks.preact_resnet:preact_resnet18",
        "PreAct ResNet-18 of the paper, for images; width 64 is the paper's",
    ),
    "mlp": Entry("drpl.networks.mlp:mlp", "two hidden layers of 4 x width, for vectors"),
}


def build(name: str, shape: tuple[int, ...], classes: int, width: int) -> "nn.Module":
    """A fresh network; `auto` takes the paper's for images and the MLP for vectors."""
    import torch

    if name == "auto":
        name = "preact_resnet18" if len(shape) == 3 else "mlp"
    net: nn.Module = find("network", name, NETWORKS).load()(shape, classes, width)
    # Convolutions are faster with the channels last, on GPUs and on CPUs.
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
