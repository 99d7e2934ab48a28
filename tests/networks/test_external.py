"""Networks of other packages."""

import sys
from types import SimpleNamespace

import pytest
import torch

from drpl.errors import ConfigError
from drpl.networks.build import build_network


def made_elsewhere(name: str, classes: int) -> torch.nn.Module:
    if name != "known":
        raise ValueError(f"Unknown model {name}")
    layers = torch.nn.Conv2d(3, 8, 3, 2), torch.nn.Conv2d(8, 8, 3), torch.nn.Flatten()
    return torch.nn.Sequential(torch.nn.Sequential(*layers), torch.nn.Linear(200, classes))


def test_networks_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    vision = SimpleNamespace(
        get_model=lambda name, weights, num_classes: made_elsewhere(name, num_classes)
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=vision))
    timm = SimpleNamespace(
        create_model=lambda name, in_chans, num_classes: torch.nn.Conv2d(in_chans, num_classes, 1)
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    for channels in (1, 3):
        net = build_network("torchvision:known", (channels, 16, 16), 5, 64)
        assert net(torch.randn(2, channels, 16, 16)).shape == (2, 5)
        assert build_network("timm:any", (channels, 16, 16), 5, 64).in_channels == channels
    with pytest.raises(ConfigError, match=r"torchvision cannot build 'other'.*Unknown model other"):
        build_network("torchvision:other", (3, 16, 16), 5, 64)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match="needs the package timm, which cannot be imported here"):
        build_network("timm:any", (3, 16, 16), 5, 64)
    with pytest.raises(ConfigError, match="known are timm, torchvision"):
        build_network("keras:any", (3, 16, 16), 5, 64)
