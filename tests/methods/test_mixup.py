"""Mixup: images and targets are mixed alike."""

from typing import Any

import pytest
import torch
from scipy.special import betaincinv
from torch.nn import functional

from drpl.methods import mixup
from drpl.training.losses import one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3


@pytest.mark.parametrize("alpha", [1.0, 32.0])
def test_the_loss_by_hand(alpha: float) -> None:
    """L = l CE(y) + (1 - l) CE(y') of one mixture."""
    stage = mixup.Mixup(make_net(), one_hot(LABELS, 3), alpha)
    x, i = first_batch(1)
    draws = make_feed(1).rng
    drawn = float(torch.rand((), generator=draws, dtype=torch.float64))
    weight = float(betaincinv(alpha, alpha, drawn))
    partner = torch.randperm(24, generator=draws)
    with torch.no_grad():
        logits = stage.net(weight * x + (1 - weight) * x[partner])
        own, other = (functional.cross_entropy(logits, LABELS[j]) for j in (i, i[partner]))
    wanted: Any = pytest.approx(float(weight * own + (1 - weight) * other), rel=1e-5)
    assert pass_epoch(stage, make_feed(1)) == [{"mixup": wanted}]
    assert torch.equal(stage.targets, one_hot(LABELS, 3))


def test_the_preset_follows_the_paper() -> None:
    assert read_preset(mixup.Config, "mixup", "cifar10").alpha == 1
