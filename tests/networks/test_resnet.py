"""Networks for larger images."""

import torch

from drpl.networks.build import build_network


def test_resnet_shrinks_to_a_thirty_second_and_ends_active() -> None:
    net = build_network("resnet18", (3, 224, 224), 5, 4)
    x = net.get_submodule("stem")(torch.randn(1, 3, 224, 224))
    assert x.shape == (1, 4, 56, 56)
    for stage in net.get_submodule("stages").children():
        x = stage(x)
    assert x.shape == (1, 32, 7, 7)
    assert float(x.detach().min()) == 0
