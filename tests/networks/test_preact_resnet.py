"""The network of the papers on label noise."""

import pytest
import torch

from drpl.networks.build import build_network
from drpl.networks.preact_resnet import PreActBlock, preact_resnet18


@pytest.mark.parametrize(("classes", "count"), [(10, 11_171_274), (100, 11_217_444)])
def test_preact_resnet18_has_the_papers_size(classes: int, count: int) -> None:
    net = build_network("preact_resnet18", (3, 32, 32), classes, 64)
    assert sum(p.numel() for p in net.parameters()) == count


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
