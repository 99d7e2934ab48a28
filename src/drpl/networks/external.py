"""Networks of other packages, by names such as `timm:resnet50`, where these can be imported."""

from importlib import import_module
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from drpl.errors import ConfigError
from drpl.networks.layers import check_images

PACKAGES = ("timm", "torchvision")


def build_external(address: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The network at `package:name`, also of `timm:NAME@FILE`, without pretrained weights."""
    package, _, name = address.partition("@")[0].partition(":")
    if package not in PACKAGES:
        raise ConfigError(
            f"unknown package in network {address!r}; known are {', '.join(PACKAGES)}"
        )
    check_images(address, shape)
    module = _import(package, address)
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


def has_weights(address: str) -> bool:
    """Whether an address names a file of pretrained weights too: `timm:NAME@FILE`."""
    return address.startswith("timm:") and "@" in address


def read_external_scale(address: str, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation that a network of timm was trained with, for one or three channels."""
    name = address.partition("@")[0].removeprefix("timm:")
    about = _import("timm", address).get_pretrained_cfg(name)
    if about is None:
        raise ConfigError(f"timm says not how images are normalised for {name!r}")
    if channels == 1:  # as timm makes one channel of a network's three
        return (sum(about.mean) / 3,), (sum(about.std) / 3,)
    return tuple(about.mean), tuple(about.std)


def load_external_weights(net: nn.Module, address: str) -> None:
    """Give a network the weights of the address's file, all but those of its classifier."""
    file = address.partition("@")[2]
    try:
        stored = load_file(file) if file.endswith(".safetensors") else _read_plain(file)
    except (OSError, SafetensorError, UnpicklingError, RuntimeError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"cannot read the weights {file}: {reason}") from None
    wanted, kept = net.state_dict(), {}
    for key, tensor in stored.items():
        shape = wanted[key].shape if key in wanted else None
        if shape and len(shape) == 4 and shape[1] == 1 and tensor.shape[1] == 3:
            tensor = tensor.sum(1, keepdim=True)  # one channel stands for three alike
        if tensor.shape == shape:
            kept[key] = tensor
    fresh = {id(parameter) for parameter in net.get_classifier().parameters()}  # type: ignore[operator]
    own = {key for key, parameter in net.named_parameters() if id(parameter) in fresh}
    kept = {key: tensor for key, tensor in kept.items() if key not in own}
    lacking = set(net.load_state_dict(kept, strict=False).missing_keys) - own
    if lacking:
        raise ConfigError(
            f"{file} has not the weights of {address.partition('@')[0]}: {len(lacking)} of "
            f"{len(wanted)} tensors are missing or have another shape, such as {min(lacking)}"
        )


def _read_plain(file: str) -> dict[str, Tensor]:
    """Tensors by name, also from a checkpoint that has them in a table of its own."""
    content = torch.load(file, map_location="cpu", weights_only=True)
    found: dict[str, Tensor] = content.get("state_dict", content.get("model", content))
    return found


def _import(package: str, address: str) -> Any:
    try:
        return import_module(package)
    # An operator that this build of torch lacks shows up as a RuntimeError.
    except (ImportError, RuntimeError, AttributeError) as error:
        raise ConfigError(
            f"network {address!r} needs the package {package}, which cannot be imported here "
            f"({str(error).splitlines()[0]}); repair that or take one of `drpl list networks`"
        ) from None


def _set_channels(net: nn.Module, channels: int) -> None:
    """Draw the first convolution anew where it takes another number of channels."""
    first = next(module for module in net.modules() if isinstance(module, nn.Conv2d))
    if first.in_channels != channels:
        first.in_channels = channels
        weight = first.weight.new_empty(first.out_channels, channels, *first.kernel_size)
        first.weight = nn.Parameter(weight)
        first.reset_parameters()
