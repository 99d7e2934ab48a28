"""Bootstrapping with a fixed share of the prediction (Reed et al.)."""

from pathlib import Path

import torch
from torch import nn

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.methods import reed
from drpl.training.losses import one_hot
from tests.support.equations import LOGITS, check_gradient
from tests.support.stages import first_batch, make_feed, make_net
from tests.support.tiny import read_preset, tiny_config, tiny_network


def test_bootstrapping_shares_the_target_with_the_prediction() -> None:
    p = LOGITS.softmax(1)
    guess = torch.tensor([0, 1])
    assert torch.allclose(reed.hard(LOGITS), nn.functional.cross_entropy(LOGITS, guess))
    assert torch.allclose(reed.soft(LOGITS), -(p * p.log()).sum(1).mean())
    for kind, beta in (("hard", 0.8), ("soft", 0.95)):
        targets = one_hot(torch.arange(24) % 3, 3)
        stage = reed.Bootstrap(make_net(), targets, kind, beta)  # type: ignore[arg-type]
        x, i = first_batch(1)
        p = stage.net(x).softmax(1)
        own = one_hot(p.argmax(1), 3) if kind == "hard" else p
        (terms,) = stage.epoch(make_feed(1))
        mixed = beta * targets[i] + (1 - beta) * own
        assert torch.allclose(sum(terms.values()), -(mixed * p.log()).sum(1).mean())  # type: ignore[arg-type]


def test_soft_bootstrapping_is_more_than_scaled_cross_entropy() -> None:
    logits = LOGITS.clone().requires_grad_()
    (slope,) = torch.autograd.grad(reed.soft(logits), logits)
    assert slope.abs().max() > 0.01


def test_gradients_are_those_of_finite_differences() -> None:
    check_gradient(lambda logits, _: reed.hard(logits))
    check_gradient(lambda logits, _: reed.soft(logits))


def test_the_soft_kind_learns_too(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("reed", 12, {"kind": "soft"})
    result = drpl.train(
        tiny,
        method="reed",
        config=config,
        network=tiny_network,
        noise="uniform:0.3",
        out=tmp_path,
        quiet=True,
    )
    assert (result.accuracy["last"] or 0) > 80


def test_presets_follow_the_paper() -> None:
    c = read_preset(reed.Config, "reed", "cifar10")
    assert (c.kind, c.beta.hard, c.beta.soft) == ("hard", 0.8, 0.95)
