"""Networks of other packages, by names such as `timm:resnet50`, where these can be imported."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import nn

from drpl.errors import ConfigError
from drpl.networks.layers import check_images


def _build_timm(timm: Any, name: str, channels: int, classes: int) -> nn.Module:
    """timm builds for any number of channels itself."""
    net: nn.Module = timm.create_model(name, in_chans=channels, num_classes=classes)
    return net


def _build_torchvision(torchvision: Any, name: str, channels: int, classes: int) -> nn.Module:
    """torchvision's networks take three channels: the first convolution is changed for others."""
    net: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=classes)
    where, first = next(
        (name, module) for name, module in net.named_modules() if isinstance(module, nn.Conv2d)
    )
    if first.in_channels != channels:
        parent, _, own = where.rpartition(".")
        setattr(net.get_submodule(parent), own, _adapt_channels(first, channels))
    return net


def _adapt_channels(conv: nn.Conv2d, channels: int) -> nn.Conv2d:
    """The same convolution for another number of input channels."""
    return nn.Conv2d(
        channels,
        conv.out_channels,
        conv.kernel_size,  # type: ignore[arg-type]  # typed as longer than it is
        conv.stride,  # type: ignore[arg-type]
        conv.padding,  # type: ignore[arg-type]
        bias=conv.bias is not None,
    )


PACKAGES: dict[str, Callable[[Any, str, int, int], nn.Module]] = {
    "timm": _build_timm,
    "torchvision": _build_torchvision,
}


def build_external(address: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The network at `package:name`, without pretrained weights."""
    package, _, name = address.partition(":")
    if package not in PACKAGES:
        raise ConfigError(
            f"unknown package in network {address!r}; known are {', '.join(PACKAGES)}"
        )
    check_images(address, shape)
    try:
        module = import_module(package)
    # An operator that this build of torch lacks shows up as a RuntimeError.
    except (ImportError, RuntimeError, AttributeError) as error:
        raise ConfigError(
            f"network {address!r} needs the package {package}, which cannot be imported here "
            f"({str(error).splitlines()[0]}); repair that or take one of `drpl list networks`"
        ) from None
    try:
        return PACKAGES[package](module, name, shape[0], classes)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{package} cannot build {name!r} for {shape[0]} channels: {str(error).splitlines()[0]}"
        ) from None
