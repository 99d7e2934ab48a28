"""ELR+: early predictions of the other network's average, on mixed images."""

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from drpl.methods import elr, elr_plus
from drpl.randomness import rng
from drpl.training.losses import one_hot
from tests.support.stages import (
    first_batch,
    make_feed,
    make_net,
    pass_epoch,
    pass_halves,
    scale_weights,
)
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3


def make_stage(**settings: Any) -> elr_plus.TaughtPair:
    config = read_preset(elr_plus.Config, "elr_plus", "cifar10", settings=settings)
    return elr_plus.TaughtPair((make_net(1), make_net(2)), LABELS, 3, config)


def test_the_ramp() -> None:
    assert elr_plus.rise(20000, 40000) == pytest.approx(0.286505, abs=5e-7)
    assert elr_plus.rise(1, 40000) == pytest.approx(0.006740, abs=1e-6)
    assert elr_plus.rise(50000, 40000) == elr_plus.rise(0, 0) == 1


def test_labels_are_weighed_by_targets() -> None:
    y, q = torch.tensor([[0.8, 0.2, 0.0]]), torch.tensor([[0.1, 0.6, 0.3]])
    assert elr_plus.reweigh(y, q)[0].tolist() == pytest.approx([0.4, 0.6, 0.0])
    nothing = elr_plus.reweigh(y, torch.tensor([[0.0, 0.0, 1.0]]))  # 0 / 0 in the released code
    assert nothing[0].tolist() == pytest.approx([0.8, 0.2, 0.0])


def test_gradients_are_those_of_finite_differences() -> None:
    logits = torch.randn(6, 4, generator=rng("z"), dtype=torch.float64, requires_grad=True)
    q, y = (torch.rand(6, 4, generator=rng(k), dtype=torch.float64).softmax(1) for k in (1, 2))

    def loss(z: torch.Tensor) -> torch.Tensor:
        held = elr.early_learning(z.softmax(1), q)
        return functional.cross_entropy(z, elr_plus.reweigh(y, q)) + 3 * held

    assert gradcheck(loss, logits)


def test_each_learns_from_the_others_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch of the first network by hand, without mixing."""
    stage = make_stage(beta=0.6, regulariser=2.0, decay=0.5, decay_ramp=0)
    monkeypatch.setattr("drpl.training.losses.draw_weight", lambda alpha, rng: 1.0)
    scale_weights(stage, 3)  # the first network moves away from its average
    with torch.no_grad():
        stage.early.copy_(torch.rand(2, 24, 3, generator=rng("t")).softmax(2))
    before, first = stage.early.clone(), stage.net.members[0]
    x, i = first_batch(1)
    guess = stage.averages[1](x).softmax(1)
    logits = first(x).detach()
    t = 0.6 * before[0, i] + 0.4 * guess
    terms, _ = pass_epoch(stage, make_feed(1))
    wanted = functional.cross_entropy(logits, LABELS[i])
    assert terms["classify"] == pytest.approx(float(wanted), rel=1e-5)
    held = elr.early_learning(logits.softmax(1), t)
    assert terms["early"] == pytest.approx(2 * float(held), rel=1e-5)
    torch.testing.assert_close(stage.early[0, i], t)


def test_averages_follow_their_own_network_and_have_no_gradient() -> None:
    stage = make_stage(decay=0.5, decay_ramp=0)
    before = [average.state_dict()["net.weight"].clone() for average in stage.averages]
    scale_weights(stage, 3)
    pass_epoch(stage, make_feed(1))
    for average, net, old in zip(stage.averages, stage.net.members, before, strict=True):
        wanted = (old + net.state_dict()["weight"]) / 2
        torch.testing.assert_close(average.state_dict()["net.weight"], wanted)
        assert all(parameter.grad is None for parameter in average.parameters())


def test_mixed_rows_have_mixed_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(regulariser=0.0, reweigh=True, beta=0.0, decay=0.0, decay_ramp=0)
    monkeypatch.setattr("drpl.training.losses.draw_weight", lambda alpha, rng: 0.2)
    x, i = first_batch(1)
    draws = make_feed(1).rng
    partner = torch.randperm(24, generator=draws)
    guess = stage.averages[1](x).softmax(1)
    q, y = (0.8 * one + 0.2 * one[partner] for one in (guess, one_hot(LABELS[i], 3)))
    logits = stage.net.members[0](0.8 * x + 0.2 * x[partner])
    terms, _ = pass_epoch(stage, make_feed(1))
    wanted = functional.cross_entropy(logits, elr_plus.reweigh(y, q))
    assert terms["classify"] == pytest.approx(wanted.item(), rel=1e-5)


def test_samples_that_no_batch_visits_keep_their_targets() -> None:
    stage = make_stage()
    pass_epoch(stage, make_feed(1, 22))  # the rest of two is skipped
    assert (stage.early > 0).any(2).sum(1).tolist() == [22, 22]


def test_two_processes_fill_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_stage(decay=0.0)
    pass_epoch(whole, make_feed(2, 12))
    one, two = pass_halves(lambda: make_stage(decay=0.0), monkeypatch)
    assert torch.allclose(whole.early, one.early + two.early, atol=1e-6)


def test_presets_follow_the_released_code() -> None:
    c = read_preset(elr_plus.Config, "elr_plus", "cifar10")
    assert (c.regulariser, c.beta, c.reweigh, c.ramp, c.schedule.epochs) == (3, 0.7, False, 0, 200)
    assert [c.schedule.lr_at(e) for e in (150, 151)] == [0.02, 0.002]
    c = read_preset(elr_plus.Config, "elr_plus", "cifar100")
    assert (c.regulariser, c.beta, c.reweigh, c.schedule.epochs) == (7, 0.9, True, 250)
    assert c.ramp == c.decay_ramp == round(40_000 / (50_000 / 128))
    web = read_preset(elr_plus.Config, "elr_plus", "webvision")
    assert (web.regulariser, web.alpha, web.schedule.batch_size) == (3, 1.5, 32)
