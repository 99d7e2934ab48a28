"""Early-learning regularisation: predictions held near their own running mean."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from drpl.methods import elr
from drpl.randomness import rng
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, pass_halves
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
P = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
T = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)


def make_stage(**settings: Any) -> elr.EarlyLearning:
    config = read_preset(elr.Config, "elr", "cifar10", settings=settings)
    return elr.EarlyLearning(make_net(), LABELS, 3, config)


def loss(logits: Tensor, t: Tensor) -> Tensor:
    """Of the label 0, with lambda = 3."""
    given = functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64))
    return given + 3 * elr.early_learning(logits.softmax(1), t)


def test_the_loss_and_its_gradient() -> None:
    logits = P.log().requires_grad_()
    assert float(elr.early_learning(P, T)) == pytest.approx(-0.673345, abs=5e-7)
    assert loss(logits, T).item() == pytest.approx(-1.663359, abs=5e-7)
    (slope,) = torch.autograd.grad(loss(logits, T), logits)
    assert slope[0].tolist() == pytest.approx([-0.752941, 0.423529, 0.329412], abs=5e-7)


def test_targets_move_before_the_loss() -> None:
    then = elr.update(T, P, 0.7)
    assert then[0].tolist() == pytest.approx([0.63, 0.27, 0.10])
    assert float(loss(P.log(), then)) == pytest.approx(-1.752918, abs=5e-7)
    first = elr.update(torch.zeros(1, 3).double(), P, 0.7)
    assert first[0].tolist() == pytest.approx([0.21, 0.06, 0.03])
    assert float(loss(P.log(), first)) == pytest.approx(-0.173537, abs=5e-7)


def test_a_sure_prediction_stays_finite() -> None:
    sure = torch.tensor([[1.0, 0.0, 0.0]])
    t = torch.zeros(1, 3)
    for _ in range(200):
        t = elr.update(t, sure, 0.7)
    assert t.sum().item() == pytest.approx(1)
    assert float(elr.early_learning(sure, t)) > -10


def test_gradients_are_those_of_finite_differences() -> None:
    logits = torch.randn(6, 4, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    t = torch.randn(6, 4, generator=rng("t"), dtype=torch.float64).softmax(1)
    assert gradcheck(lambda z: elr.early_learning(z.softmax(1), t), logits)


def test_an_epoch_by_hand() -> None:
    stage = make_stage(beta=0.9, regulariser=2.0)
    stage.targets.copy_(torch.rand(24, 3, generator=rng("t")).softmax(1))
    before, labels = stage.targets.clone(), stage.labels
    x, i = first_batch(1)
    logits = stage.net(x).detach()
    p = logits.softmax(1)
    moved = 0.9 * before[i] + 0.1 * p
    (terms,) = pass_epoch(stage, make_feed(1))
    assert terms["classify"] == pytest.approx(float(functional.cross_entropy(logits, labels[i])))
    held = (1 - (moved * p).sum(1)).log().mean()
    assert terms["early"] == pytest.approx(2 * float(held), rel=1e-5)
    assert torch.allclose(stage.targets[i], moved, atol=1e-6)


def test_a_row_of_targets_grows_to_one() -> None:
    stage = make_stage(beta=0.5)
    assert stage.list_taught() is not None
    assert set(stage.list_taught().tolist()) == {-1}  # type: ignore[union-attr]
    for epoch in (1, 2, 3):
        pass_epoch(stage, make_feed(epoch))
        assert torch.allclose(stage.targets.sum(1), torch.tensor(1 - 0.5**epoch))


def test_samples_that_no_batch_visits_keep_their_target() -> None:
    stage = make_stage()
    pass_epoch(stage, make_feed(1, 22))  # the rest of two is skipped
    assert int((stage.targets > 0).any(1).sum()) == 22


def test_two_processes_move_targets_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_stage()
    pass_epoch(whole, make_feed(2, 12))
    one, two = pass_halves(make_stage, monkeypatch)
    assert torch.allclose(whole.targets, one.targets + two.targets, atol=1e-6)


def test_presets_follow_the_released_code() -> None:
    c = read_preset(elr.Config, "elr", "cifar10")
    assert (c.regulariser, c.beta, c.schedule.epochs, c.schedule.weight_decay) == (
        3,
        0.7,
        120,
        1e-3,
    )
    assert [c.schedule.lr_at(e) for e in (40, 41, 80, 81)] == [0.02, 0.0002, 0.0002, 2e-6]
    c = read_preset(elr.Config, "elr", "cifar100")
    assert (c.regulariser, c.beta, c.schedule.epochs) == (7, 0.9, 150)
    assert [c.schedule.lr_at(e) for e in (80, 81, 120, 121)] == [0.02, 0.0002, 0.0002, 2e-6]
    web = read_preset(elr.Config, "elr", "webvision")
    assert (web.regulariser, web.beta, web.schedule.batch_size) == (3, 0.7, 32)
