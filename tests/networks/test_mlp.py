"""Networks for vectors."""

import numpy as np
import torch
from torch import nn

import drpl
from drpl.data.images import TensorImages
from drpl.networks.build import build_network
from drpl.registry import NETWORKS
from drpl.runs import model
from tests.conftest import Command
from tests.support.tiny import brief_settings


def test_the_linear_head_is_linear() -> None:
    net = build_network("linear", (7,), 3, 64).eval()
    assert [p.shape for p in net.parameters()] == [(3, 7), (3,)]  # width plays no part
    x, y = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    half = net((x + y) / 2)
    assert torch.allclose(half, (net(x) + net(y)) / 2, atol=1e-6)


def test_it_is_listed_and_learns_vectors(command: Command) -> None:
    assert "linear" in NETWORKS
    assert "linear" in command("list", "networks").out
    labels = np.arange(120) % 3
    x = np.eye(3, 8)[labels] * 3 + np.random.default_rng(1).normal(size=(120, 8))
    data = drpl.arrays(x, labels, x, labels)
    settings = brief_settings("drpl", 5, {"network": "linear"})
    result = drpl.train(data, settings=settings, noise="uniform:0.2", out="run", quiet=True)
    assert (result.accuracy["last"] or 0) > 90
    assert ((result.detection or {})["auroc"] or 0) > 0.9
    again = model.load("run")
    assert isinstance(again.net, nn.Sequential)
    probs = again.predict(TensorImages(torch.from_numpy(x.astype(np.float32))))
    assert float((probs.argmax(1).numpy() == labels).mean()) > 0.9
