"""Embeddings beside the logits of any network."""

import pytest
import torch
from torch import nn

from drpl.errors import ConfigError
from drpl.networks.build import build_network
from drpl.networks.head import ProjectionHead, find_classifier
from drpl.randomness import rng
from tests.support.tiny import tiny_network


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        ("preact_resnet18", (3, 16, 16)),
        ("resnet18", (3, 32, 32)),
        ("mlp", (6,)),
        ("linear", (6,)),
        ("lite0", (3, 32, 32)),
        (tiny_network, (1, 8, 8)),
    ],
)
def test_one_forward_gives_both(network: str, shape: tuple[int, ...]) -> None:
    net = build_network(network, shape, 5, 4).eval()
    head = ProjectionHead(net, 7, rng("head"))
    x = torch.randn(3, *shape, generator=rng("x"))
    logits, embedding = head(net, x)
    assert torch.equal(logits, net(x))
    torch.testing.assert_close(embedding.norm(dim=1), torch.ones(3))
    assert embedding.shape == (3, 7)
    (logits.sum() + (embedding[:, 0]).sum()).backward()
    assert all(parameter.grad is not None for parameter in head.parameters())
    first = next(net.parameters())
    assert first.grad is not None
    assert not net.get_submodule(head.classifier)._forward_pre_hooks


def test_it_embeds_what_the_classifier_sees() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    head = ProjectionHead(net, 2, rng("head"))
    x = torch.randn(5, 4)
    wanted = nn.functional.normalize(head.layers(net[:2](x)), dim=1)
    torch.testing.assert_close(head(net, x)[1], wanted)


def test_first_weights_follow_from_the_draws_alone() -> None:
    net = build_network("mlp", (6,), 3, 4)
    heads = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        heads.append(ProjectionHead(net, 7, rng("head"), hidden=(9,)).state_dict())
    assert all(torch.equal(heads[0][name], heads[1][name]) for name in heads[0])
    weight = heads[0]["layers.3.weight"]
    assert weight.shape == (7, 9)
    assert weight.abs().max() <= 1 / 3
    assert weight.std() > 0.1


def test_a_network_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no linear layer"):
        find_classifier(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten()))
