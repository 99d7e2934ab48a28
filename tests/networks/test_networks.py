import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from drpl.errors import ConfigError
from drpl.networks.build import CUSTOM, build_network
from drpl.networks.layers import Pointwise
from drpl.networks.preact_resnet import PreActBlock, preact_resnet18


def parameters(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(("classes", "count"), [(10, 11_171_274), (100, 11_217_444)])
def test_preact_resnet18_has_the_papers_size(classes: int, count: int) -> None:
    assert parameters(build_network("preact_resnet18", (3, 32, 32), classes, 64)) == count


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (4, 64, 48), (3, 15, 15)])
def test_preact_resnet18_takes_any_shape(shape: tuple[int, ...]) -> None:
    net = build_network("auto", shape, 7, 4)
    assert net(torch.randn(2, *shape)).shape == (2, 7)


def test_no_activation_after_the_last_block() -> None:
    """The features before the pool may be negative: the class activation maps depend on it."""
    torch.manual_seed(0)
    net = preact_resnet18((3, 16, 16), 5, 4)
    x = net.stem(torch.randn(4, 3, 16, 16))
    for stage in net.stages:
        x = stage(x)
    assert float(x.detach().min()) < 0


def test_identity_shortcut_carries_the_activated_input() -> None:
    block = PreActBlock(4, 4, stride=1)
    torch.nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 4, 8, 8)
    assert torch.equal(block(x), torch.relu(block.norm1(x)))


def test_convolutions_have_no_bias_and_fan_out_scale() -> None:
    torch.manual_seed(0)
    conv = preact_resnet18((3, 32, 32), 5, 64).stages[3].get_submodule("1.conv2")
    assert isinstance(conv, torch.nn.Conv2d)
    assert conv.bias is None
    assert float(conv.weight.detach().std()) == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.02)


def test_vectors_get_an_mlp() -> None:
    net = build_network("auto", (20,), 3, 8)
    assert net(torch.randn(5, 20)).shape == (5, 3)
    with pytest.raises(ConfigError, match="use mlp"):
        build_network("preact_resnet18", (20,), 3, 8)
    with pytest.raises(ConfigError, match="did you mean 'mlp'"):
        build_network("mpl", (20,), 3, 8)


@pytest.mark.parametrize(
    ("name", "count"),
    [("resnet18", 11_689_512), ("resnet50", 25_557_032), ("inception_resnet_v2", 55_843_464)],
)
def test_networks_for_larger_images_have_the_standard_size(name: str, count: int) -> None:
    with torch.device("meta"):
        assert parameters(build_network(name, (3, 224, 224), 1000, 64)) == count


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet18", (3, 64, 48)),
        ("resnet18", (1, 7, 7)),
        ("resnet50", (4, 40, 40)),
        ("inception_resnet_v2", (3, 75, 80)),
    ],
)
def test_networks_for_larger_images_take_any_shape(name: str, shape: tuple[int, ...]) -> None:
    net = build_network(name, shape, 7, 4)
    assert net(torch.randn(2, *shape)).shape == (2, 7)
    with pytest.raises(ConfigError, match="use mlp"):
        build_network(name, (20,), 3, 8)


def test_resnet_shrinks_to_a_thirty_second_and_ends_active() -> None:
    net = build_network("resnet18", (3, 224, 224), 5, 4)
    x = net.get_submodule("stem")(torch.randn(1, 3, 224, 224))
    assert x.shape == (1, 4, 56, 56)
    for stage in net.get_submodule("stages").children():
        x = stage(x)
    assert x.shape == (1, 32, 7, 7)
    assert float(x.detach().min()) == 0


def test_inception_resnet_has_the_published_sizes() -> None:
    net = build_network("inception_resnet_v2", (3, 299, 299), 5, 64).eval()
    assert isinstance(net, torch.nn.Sequential)
    x, seen = torch.zeros(1, 3, 299, 299, device="meta"), []
    for part in net.to("meta"):
        x = part(x)
        seen.append(tuple(x.shape[1:]))
    assert len(net) == 1 + (1 + 10) + (1 + 20) + (1 + 9) + 1 + 4
    assert (seen[0], seen[1]) == ((192, 35, 35), (320, 35, 35))
    assert (seen[12], seen[33]) == ((1088, 17, 17), (2080, 8, 8))
    assert (seen[-4], seen[-1]) == ((1536, 8, 8), (5,))
    with pytest.raises(ConfigError, match="at least 75 pixels a side, got 64 x 64"):
        build_network("inception_resnet_v2", (3, 64, 64), 5, 64)


def test_a_network_of_ones_own() -> None:
    def mine(shape: tuple[int, ...], classes: int) -> torch.nn.Module:
        return torch.nn.Linear(shape[0], classes)

    assert build_network(mine, (4,), 3, 64)(torch.randn(2, 4)).shape == (2, 3)
    with pytest.raises(ConfigError, match=r"must return an nn.Module, got int"):
        build_network(lambda _, classes: classes, (4,), 3, 64)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"drpl.runs.model.load\(run, function\)"):
        build_network(CUSTOM, (4,), 3, 64)


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


def test_a_pointwise_convolution_equals_one_that_strides() -> None:
    x = torch.randn(2, 3, 7, 8)
    ours = Pointwise(3, 5, 2)
    plain = torch.nn.Conv2d(3, 5, 1, 2, bias=False)
    plain.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), plain(x))


@pytest.mark.parametrize("name", ["preact_resnet18", "resnet18"])
def test_narrow_networks_on_large_images_do_not_crash(name: str) -> None:
    """In a process of its own: torch's convolution that strides tears the process down."""
    code = (
        "import torch; from drpl.networks.build import build_network\n"
        f"net = build_network({name!r}, (3, 64, 64), 4, 8)\n"
        "for _ in range(2): net(torch.randn(16, 3, 64, 64).contiguous("
        "memory_format=torch.channels_last)).sum().backward()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
