"""Features by depth and class activation maps: what they are and what they add up to."""

import pytest
import torch
from torch import Tensor, nn

from drpl.errors import ConfigError
from drpl.networks.build import build_network
from drpl.networks.depth import compute_class_maps, compute_maps, extract_features
from drpl.networks.ensemble import Ensemble
from drpl.networks.preact_resnet import preact_resnet18


def test_features_are_the_means_after_each_stage() -> None:
    torch.manual_seed(0)
    net = build_network("preact_resnet18", (1, 16, 16), 3, 2).eval()
    x = torch.randn(5, 1, 16, 16)
    found = extract_features(net, x)
    assert [tuple(features.shape) for features in found] == [(5, 2), (5, 4), (5, 8), (5, 16)]
    with torch.no_grad():
        made = net.stem(x)  # type: ignore[operator]
        for features, stage in zip(found, net.stages, strict=True):  # type: ignore[arg-type]
            made = stage(made)
            assert torch.allclose(features, made.mean((2, 3)), atol=1e-6)
        assert torch.allclose(net.classify(found[-1]), net(x), atol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("preact_resnet18", (3, 16, 16)),
        ("resnet18", (1, 32, 32)),
        ("resnet50", (3, 32, 32)),
        ("inception_resnet_v2", (3, 75, 75)),
    ],
)
def test_the_mean_of_a_map_and_the_bias_are_the_logit(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = build_network(name, shape, 5, 2).eval()
    x = torch.randn(3, *shape)
    maps = compute_class_maps(net, x)
    with torch.no_grad():
        logits, bias = net(x), net.classify.bias  # type: ignore[union-attr]
    assert maps.shape[:2] == (3, 5)
    assert torch.allclose(maps.mean((2, 3)) + torch.as_tensor(bias), logits, atol=1e-4)
    blocks, _ = compute_maps(net, x)
    assert len(blocks) == 4


def test_a_map_is_the_weighted_sum_of_the_last_features() -> None:
    torch.manual_seed(1)
    net = preact_resnet18((1, 16, 16), 3, 2).eval()
    x = torch.randn(2, 1, 16, 16)
    with torch.no_grad():
        features = net.stem(x)
        for stage in net.stages:
            features = stage(features)
        wanted = sum(net.classify.weight[2, k] * features[:, k] for k in range(16))
    assert torch.allclose(compute_class_maps(net, x)[:, 2], torch.as_tensor(wanted), atol=1e-5)


def test_networks_that_answer_together_are_averaged() -> None:
    nets = [build_network("preact_resnet18", (1, 16, 16), 3, 2) for _ in range(2)]
    x = torch.randn(2, 1, 16, 16)
    mean = (compute_class_maps(nets[0], x) + compute_class_maps(nets[1], x)) / 2
    assert torch.allclose(compute_class_maps(Ensemble(*nets), x), mean, atol=1e-6)


def test_looking_changes_nothing() -> None:
    net = build_network("preact_resnet18", (1, 16, 16), 3, 2).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    compute_class_maps(net, torch.randn(2, 1, 16, 16))
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


class Peaked(nn.Module):
    """Ends in a maximum, not in a mean: it has no class activation maps."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.classify = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)

    def blocks(self) -> list[nn.Module]:
        return [self.body]

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x).amax((2, 3)))  # type: ignore[no-any-return]


def test_networks_without_such_maps_are_refused() -> None:
    with pytest.raises(ConfigError, match="mean over a map and a linear layer"):
        compute_class_maps(Peaked(), torch.randn(2, 1, 8, 8))
    mlp = build_network("mlp", (5,), 3, 2)
    with pytest.raises(ConfigError, match="no maps of the image"):
        compute_class_maps(mlp, torch.randn(2, 5))
