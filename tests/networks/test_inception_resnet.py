"""Inception-ResNet-v2 has the published sizes."""

import pytest
import torch

from drpl.errors import ConfigError
from drpl.networks.build import build_network


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
