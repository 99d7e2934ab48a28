"""Networks of other packages, by names such as `timm:resnet50`, where these can be imported."""

from importlib import import_module

from torch import nn

from drpl.errors import ConfigError
from drpl.networks.layers import check_images

PACKAGES = ("timm", "torchvision")


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
        if package == "timm":  # builds for any number of channels itself
            net: nn.Module = module.create_model(name, in_chans=shape[0], num_classes=classes)
        else:
            net = module.models.get_model(name, weights=None, num_classes=classes)
            _set_channels(net, shape[0])
    except (RuntimeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{package} cannot build {name!r} for {shape[0]} channels: {str(error).splitlines()[0]}"
        ) from None
    return net


def _set_channels(net: nn.Module, channels: int) -> None:
    """Draw the first convolution anew where it takes another number of channels."""
    first = next(module for module in net.modules() if isinstance(module, nn.Conv2d))
    if first.in_channels != channels:
        first.in_channels = channels
        weight = first.weight.new_empty(first.out_channels, channels, *first.kernel_size)
        first.weight = nn.Parameter(weight)
        first.reset_parameters()
