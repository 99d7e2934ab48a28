"""What a network makes of images on its way: its maps after each block, and its class maps.

It works for a network that has `blocks()`, the modules whose outputs count, and `classify`, the
linear layer that follows the mean over the last map, as those for images in this package do.
"""

import torch
from torch import Tensor, nn

from drpl.errors import ConfigError
from drpl.networks.ensemble import Ensemble

CLOSE = 1e-3  # between logits and the means of their maps, of the largest logit


def list_members(net: nn.Module) -> list[nn.Module]:
    """The networks that answer together, or the one that answers alone."""
    return list(net.members) if isinstance(net, Ensemble) else [net]


@torch.no_grad()
def compute_maps(net: nn.Module, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """What each block of a network makes of images, [B, K, H, W] each, and the logits. [B, C]"""
    list_blocks = getattr(net, "blocks", None)
    if list_blocks is None or not hasattr(net, "classify"):
        raise ConfigError(
            f"a network of the kind {type(net).__name__} has no maps of the image between its "
            "layers; this is for the convolutional ones of `drpl list networks`, and for those of "
            "your own with `blocks()` and `classify`"
        )
    maps: list[Tensor] = []
    hooks = [
        block.register_forward_hook(lambda _, inputs, output: maps.append(output))
        for block in list_blocks()
    ]
    was_training = net.training
    try:
        logits = net.eval()(x)
    finally:
        net.train(was_training)
        for hook in hooks:
            hook.remove()
    return maps, logits


def extract_features(net: nn.Module, x: Tensor) -> list[Tensor]:
    """The mean over each block's map. [B, K] each"""
    return [block.mean((2, 3)) for block in compute_maps(net, x)[0]]


def compute_class_maps(net: nn.Module, x: Tensor) -> Tensor:
    """Where the evidence for each class is: class activation maps. [B, C, H, W]

    The mean over a class's map plus its bias is its logit. Networks that answer together are
    averaged.
    """
    return torch.stack([_compute_member_maps(member, x) for member in list_members(net)]).mean(0)


def _compute_member_maps(net: nn.Module, x: Tensor) -> Tensor:
    """The class maps of one network. [B, C, H, W]"""
    found, logits = compute_maps(net, x)
    linear: nn.Linear = net.classify  # type: ignore[assignment]
    maps = torch.einsum("ck,bkhw->bchw", linear.weight.detach(), found[-1])
    from_maps = maps.mean((2, 3)) + (0 if linear.bias is None else linear.bias.detach())
    if (from_maps - logits).abs().max() > CLOSE * logits.abs().max().clamp(min=1):
        raise ConfigError(
            f"a network of the kind {type(net).__name__} does not end in the mean over a map and a "
            "linear layer, so it has no class activation maps"
        )
    return maps
