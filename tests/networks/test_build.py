"""Networks by name and by a function of the user's."""

import pytest
import torch

from drpl.errors import ConfigError
from drpl.networks.build import CUSTOM, build_network


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
        net = build_network(name, (3, 224, 224), 1000, 64)
    assert sum(p.numel() for p in net.parameters()) == count


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


def test_a_network_of_ones_own() -> None:
    def mine(shape: tuple[int, ...], classes: int) -> torch.nn.Module:
        return torch.nn.Linear(shape[0], classes)

    assert build_network(mine, (4,), 3, 64)(torch.randn(2, 4)).shape == (2, 3)
    with pytest.raises(ConfigError, match=r"must return an nn.Module, got int"):
        build_network(lambda _, classes: classes, (4,), 3, 64)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"drpl.runs.model.load\(run, function\)"):
        build_network(CUSTOM, (4,), 3, 64)
