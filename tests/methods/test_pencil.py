"""PENCIL: labels that are learnt by gradients."""

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck

from drpl.methods import pencil
from drpl.randomness import rng
from drpl.training.losses import entropy, one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, pass_halves
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
GIVEN = one_hot(LABELS, 3)
LOGITS = torch.tensor([[2.0, 0, 0], [0, 1, -1]])


def make_stage(**settings: Any) -> pencil.Pencil:
    settings = {"learn_from": 2, "learn_until": 3} | settings
    config = read_preset(pencil.Config, "pencil", "cifar10", settings=settings)
    return pencil.Pencil(make_net(), LABELS, 3, config)


def test_the_losses_of_pencil() -> None:
    labels = torch.tensor([0, 1])
    y = 10 * one_hot(labels, 3).double()
    assert float(pencil.classification_loss(LOGITS, y)) == pytest.approx(0.663324, abs=5e-7)
    assert float(entropy(LOGITS.softmax(1)) / 3) == pytest.approx(0.249661, abs=5e-7)
    assert float(pencil.compatibility_loss(y, labels)) == pytest.approx(9.0796e-5, abs=5e-10)
    assert float(pencil.compatibility_loss(y, labels, True)) == pytest.approx(0.551502, abs=5e-7)


def test_phases_of_pencil() -> None:
    stage = make_stage()
    assert torch.equal(stage.y, 10 * GIVEN)
    assert [set(pass_epoch(stage, make_feed(epoch))[0]) for epoch in (1, 2, 3, 4)] == [
        {"given"},
        {"classify", "compatible", "entropy"},
        {"classify", "compatible", "entropy"},
        {"classify"},
    ]


def test_only_the_second_phase_moves_labels() -> None:
    stage = make_stage()
    for epoch, moves in ((1, False), (2, True), (3, True), (4, False)):
        before = stage.y.clone()
        pass_epoch(stage, make_feed(epoch))
        assert torch.equal(stage.y, before) != moves


def test_a_label_moves_by_its_gradient() -> None:
    """(1/BC) (y^d - f) from L_c and (a/B) (y^d - given) from L_o; L_e does not touch labels."""
    stage = make_stage(label_rate=50.0, compatible=0.3)
    stage.y.copy_(torch.randn(24, 3, generator=rng("y")))
    y, d = stage.y.clone(), stage.y.softmax(1)
    with torch.no_grad():
        x, i = first_batch(2)
        f = torch.zeros(24, 3)
        f[i] = stage.net(x).softmax(1)
    pass_epoch(stage, make_feed(2, 8))  # three batches of eight
    slope = (d - f) / (8 * 3) + 0.3 * (d - GIVEN) / 8
    assert torch.allclose(stage.y, y - 50 * slope, atol=1e-5)


def test_labels_that_no_batch_visits_stay() -> None:
    stage = make_stage()
    before = stage.y.clone()
    pass_epoch(stage, make_feed(2, 22))  # the rest of two is skipped
    assert int((stage.y != before).any(1).sum()) == 22


def test_two_processes_move_labels_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_stage()
    pass_epoch(whole, make_feed(2, 12))
    parts = pass_halves(make_stage, monkeypatch)
    moved = sum(part.y - 10 * GIVEN for part in parts)
    assert torch.allclose(whole.y, 10 * GIVEN + moved, atol=1e-5)


def test_gradients_are_those_of_the_losses() -> None:
    labels = torch.arange(6) % 4
    logits, y = (
        torch.randn(6, 4, generator=rng(name), dtype=torch.float64, requires_grad=True)
        for name in ("logits", "y")
    )
    assert gradcheck(pencil.classification_loss, (logits, y))
    assert gradcheck(lambda v: pencil.compatibility_loss(v, labels), y)
    assert gradcheck(lambda v: pencil.compatibility_loss(v, labels, True), y)
    assert gradcheck(lambda z: entropy(z.softmax(1)), logits)


def test_presets_follow_the_paper() -> None:
    c = read_preset(pencil.Config, "pencil", "cifar10")
    assert (c.learn_from, c.learn_until, c.schedule.epochs) == (71, 200, 320)
    rates = [c.schedule.lr_at(e) for e in (200, 201, 240, 241, 280, 281)]
    assert rates == [0.1, 0.2, 0.2, 0.02, 0.02, 0.002]
    assert (c.label_rate, c.compatible, c.entropy) == (600, 0.1, 0.4)
    assert read_preset(pencil.Config, "pencil", "cifar100").label_rate == 10_000
    web = read_preset(pencil.Config, "pencil", "webvision")
    assert (web.learn_from, web.learn_until, web.label_rate) == (41, 100, 600)
    assert web.schedule.epochs == 200
    assert read_preset(pencil.Config, "pencil", "cifar10", "released").double_softmax
