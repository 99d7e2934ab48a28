"""Co-teaching: two networks choose for each other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.methods import coteaching
from drpl.networks.ensemble import Ensemble
from drpl.randomness import rng
from drpl.runs import model
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch
from tests.support.tiny import read_preset, tiny_config

LABELS = torch.arange(24) % 3


def make_config(**settings: Any) -> coteaching.Config:
    return read_preset(coteaching.Config, "coteaching", "cifar10", settings=settings)


def test_forgetting_rises_to_its_rate() -> None:
    c = make_config(forget_rate=0.4, ramp=4)
    assert [c.kept_share(epoch) for epoch in (1, 2, 3, 4, 5, 99)] == pytest.approx(
        [0.9, 0.8, 0.7, 0.6, 0.6, 0.6]
    )


def test_the_easiest_are_those_of_least_loss() -> None:
    each = torch.tensor([3.0, 1, 2, 0, 5, 4, 7, 6, 9, 8])
    assert set(each[coteaching.select_easiest(each, 0.7)].tolist()) == set(range(7))
    assert coteaching.select_easiest(each, 0.1).tolist() == [3]
    assert coteaching.select_easiest(each, 0.0).tolist() == [3]
    assert len(coteaching.select_easiest(each, 1.0)) == 10


def test_each_network_learns_what_its_peer_finds_easy() -> None:
    stage = coteaching.CoTeaching(
        Ensemble(make_net(1), make_net(2)), LABELS, make_config(forget_rate=0.5, ramp=2)
    )
    x, i = first_batch(2)
    with torch.no_grad():
        a, b = (
            functional.cross_entropy(member(x), LABELS[i], reduction="none")
            for member in stage.net.members
        )
    mine, theirs = a.topk(12, largest=False).indices, b.topk(12, largest=False).indices
    assert set(mine.tolist()) != set(theirs.tolist())
    terms = pass_epoch(stage, make_feed(2))[0]
    assert terms["first"] == pytest.approx(float(a[theirs].mean()), rel=1e-5)
    assert terms["second"] == pytest.approx(float(b[mine].mean()), rel=1e-5)
    (step,) = stage.epoch(make_feed(2))
    gradients = torch.autograd.grad(step["first"], list(stage.parameters()), allow_unused=True)
    assert [gradient is None for gradient in gradients] == [False, False, True, True]


def test_both_networks_predict_after_loading(tiny: DatasetSplits, tmp_path: Path) -> None:
    wanted = tiny_config("coteaching", 2)
    result = drpl.train(tiny, method="coteaching", config=wanted, out=tmp_path, quiet=True)
    again = model.load(tmp_path)
    assert isinstance(again.net, Ensemble)
    confidence, guess = again.predict(tiny.train.images).max(1)
    assert confidence.tolist() == pytest.approx(result.samples["confidence"].tolist(), rel=1e-4)
    names = [tiny.train.classes[number] for number in guess.tolist()]
    assert names == result.samples["suggested_label"].tolist()


def test_the_gradient_is_that_of_the_loss() -> None:
    labels = torch.arange(6) % 4

    def teach(first: Tensor, second: Tensor) -> Tensor:
        a, b = (functional.cross_entropy(z, labels, reduction="none") for z in (first, second))
        return (
            a[coteaching.select_easiest(b, 0.5)].mean()
            + b[coteaching.select_easiest(a, 0.5)].mean()
        )

    logits = [
        torch.randn(6, 4, generator=rng(name), dtype=torch.float64, requires_grad=True)
        for name in ("logits", "y")
    ]
    assert gradcheck(teach, logits)


def test_presets_follow_the_paper() -> None:
    c = make_config()
    assert (c.schedule.epochs, c.ramp, c.forget_rate) == (200, 10, 0.2)
