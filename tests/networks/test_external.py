"""Networks of other packages."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import drpl
from drpl.encoders.pretrained import start
from drpl.errors import ConfigError
from drpl.networks.build import build_network
from drpl.networks.external import has_weights, load_external_weights, read_external_scale
from drpl.runs import model
from tests.support.tiny import brief_settings


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


class Known(torch.nn.Module):
    """A network as timm makes them."""

    def __init__(self, in_chans: int, num_classes: int) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(in_chans, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, num_classes)

    def get_classifier(self) -> torch.nn.Module:
        return self.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(self.stem(x)).mean((2, 3)))
        return logits


def test_weights_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm = SimpleNamespace(
        create_model=lambda name, in_chans, num_classes: Known(in_chans, num_classes),
        get_pretrained_cfg=lambda name: SimpleNamespace(mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.3)),
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    stored = Known(3, 1000).state_dict()
    torch.save({"state_dict": stored}, tmp_path / "a.pth")
    save_file(stored, tmp_path / "b.safetensors")
    for name in ("a.pth", "b.safetensors"):
        address = f"timm:known@{tmp_path / name}"
        assert has_weights(address)
        assert read_external_scale(address, 3) == ((0.4, 0.5, 0.6), (0.1, 0.2, 0.3))
        for channels in (3, 1):
            net = build_network(address, (channels, 16, 16), 5, 64)
            fresh = {key: tensor.clone() for key, tensor in net.state_dict().items()}
            load_external_weights(net, address)
            own = net.state_dict()
            assert torch.equal(own["head.weight"], fresh["head.weight"])
            assert torch.equal(own["norm.weight"], stored["norm.weight"])
            grey = stored["stem.weight"].sum(1, keepdim=True)
            assert torch.equal(own["stem.weight"], grey if channels == 1 else stored["stem.weight"])
    assert sum(read_external_scale(address, 1), ()) == pytest.approx((0.5, 0.2))
    data = drpl.arrays(np.zeros((36, 3, 16, 16), np.uint8), np.arange(36) % 3)
    settings = brief_settings("cross_entropy", 1, {"network": address, "pretrained": True})
    drpl.train(data, method="cross_entropy", settings=settings, out=tmp_path / "run", quiet=True)
    (tmp_path / "b.safetensors").unlink()  # the model has its own
    assert model.load(tmp_path / "run").transform.mean == (0.4, 0.5, 0.6)
    with pytest.raises(ConfigError, match="frozen parts are for lite0, lite2"):
        start(Known(3, 5), f"timm:known@{tmp_path / 'a.pth'}", 1)


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    net = Known(3, 5)
    with pytest.raises(ConfigError, match=r"cannot read the weights .*nowhere.pth"):
        load_external_weights(net, f"timm:known@{tmp_path / 'nowhere.pth'}")
    for name in ("bad.pth", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"no weights at all")
        with pytest.raises(ConfigError, match="cannot read the weights"):
            load_external_weights(net, f"timm:known@{tmp_path / name}")
    torch.save({"other": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(ConfigError, match=r"has not the weights of timm:known: 6 of 9 tensors"):
        load_external_weights(net, f"timm:known@{tmp_path / 'other.pth'}")
