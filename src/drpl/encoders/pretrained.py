"""Fine-tuning: networks of a run that begin with pretrained weights, all but their classifiers."""

from torch import nn

from drpl.encoders.lite import MEAN, RELEASES, STD, start_pretrained
from drpl.errors import ConfigError
from drpl.networks.build import Builder
from drpl.networks.efficientnet_lite import EfficientNetLite
from drpl.networks.external import has_weights, load_external_weights, read_external_scale

Scale = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation of each channel


def find_scale(network: str | Builder, channels: int) -> Scale:
    """How pixels are normalised for pretrained weights; a sentence where there are none."""
    if channels not in (1, 3):
        raise ConfigError(
            f"pretrained weights are for images of one or three channels, not of {channels}"
        )
    if isinstance(network, str) and network in RELEASES:
        return (MEAN,) * channels, (STD,) * channels
    if isinstance(network, str) and has_weights(network):
        return read_external_scale(network, channels)
    name = network if isinstance(network, str) else "of your own"
    raise ConfigError(
        f"there are no pretrained weights for network {name!r}; known are "
        f"{', '.join(RELEASES)}, and timm:NAME@FILE"
    )


def start(net: nn.Module, network: str | Builder, frozen: int) -> nn.Module:
    """The fresh network with pretrained weights, of whose parts the first `frozen` keep theirs."""
    if isinstance(network, str) and has_weights(network):
        load_external_weights(net, network)
    else:
        start_pretrained(net, str(network))
    if frozen:
        if not isinstance(net, EfficientNetLite):
            raise ConfigError(f"frozen parts are for {', '.join(RELEASES)}; set frozen=0")
        net.freeze(frozen)
    return net
