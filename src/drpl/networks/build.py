"""Networks by name: each is built for a shape of input and a number of classes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from drpl.errors import ConfigError
from drpl.registry import NETWORKS, find

if TYPE_CHECKING:
    from torch import nn


CUSTOM = "custom"  # what a run's files say of a network that is the user's own function

Builder = Callable[[tuple[int, ...], int], "nn.Module"]  # (shape, classes) -> network


def build_network(
    network: str | Builder, shape: tuple[int, ...], classes: int, width: int
) -> "nn.Module":
    """A fresh network: by name, at `timm:NAME` or `torchvision:NAME`, or by a user's function.

    `auto` takes the paper's for images and the MLP for vectors.
    """
    import torch

    if not isinstance(network, str):
        if isinstance(own := network(shape, classes), torch.nn.Module):
            return own
        raise ConfigError(
            f"your network function must return an nn.Module, got {type(own).__name__}"
        )
    if network == CUSTOM:
        raise ConfigError(
            "network 'custom' stands for a function of your own, which only Python can give: train "
            "with drpl.train(..., network=function), load with drpl.runs.model.load(run, function)"
        )
    if network == "auto":
        network = "preact_resnet18" if len(shape) == 3 else "mlp"
    if ":" in network:
        from drpl.networks.external import build_external

        net = build_external(network, shape, classes)
    else:
        net = find("network", network, NETWORKS).load()(shape, classes, width)
    # Convolutions are faster with the channels last, on GPUs and on CPUs.
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
