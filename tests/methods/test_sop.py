"""Sparse over-parameterisation: a term of each sample for what is wrong in its label."""

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck

from drpl.methods import sop
from drpl.randomness import rng
from drpl.training.losses import one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, pass_halves
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
P = torch.tensor([[0.2, 0.7, 0.1]], dtype=torch.float64)
Y = torch.tensor([[1.0, 0, 0]], dtype=torch.float64)
U = torch.tensor([[0.5]], dtype=torch.float64)
V = torch.tensor([[0.0, 0.6, 0.2]], dtype=torch.float64)


def make_stage(**settings: Any) -> sop.Overparameterised:
    config = read_preset(sop.Config, "sop", "cifar10", settings=settings)
    return sop.Overparameterised(make_net(), LABELS, 3, config, rng("corrections"))


def grown(**settings: Any) -> sop.Overparameterised:
    """A stage whose corrections are no longer next to zero."""
    stage = make_stage(**settings)
    for name in ("u", "v"):
        table = getattr(stage, name)
        table.copy_(torch.rand(table.shape, generator=rng(name)) * 0.8 + 0.1)
    return stage


def test_the_losses_and_the_gradients_of_the_corrections() -> None:
    logits, u, v = P.log(), U.clone().requires_grad_(), V.clone().requires_grad_()
    added, taken = sop.split_correction(Y, u, v)
    assert added[0].tolist() == pytest.approx([0.25, 0, 0])
    assert taken[0].tolist() == pytest.approx([0, 0.36, 0.04])
    given = sop.corrected_cross_entropy(logits, Y, u, v)
    explained = sop.explanation_loss(logits, Y, u, v)
    assert given.item() == pytest.approx(0.635989, abs=5e-7)
    assert explained.item() == pytest.approx(0.973700, abs=5e-7)
    assert (given + explained).item() == pytest.approx(1.609689, abs=5e-7)
    of_u, of_v = torch.autograd.grad(explained, (u, v))
    assert of_u.item() == pytest.approx(-1.5)
    assert of_v[0].tolist() == pytest.approx([0, -1.536, 0.032])


def test_who_learns_from_which_loss() -> None:
    logits, u, v = (t.clone().requires_grad_() for t in (P.log(), U, V))
    of_net, of_u, of_v = torch.autograd.grad(
        sop.corrected_cross_entropy(logits, Y, u, v), (logits, u, v), allow_unused=True
    )
    assert of_net.abs().max() > 0.1
    assert of_u.abs().max() > 0.1
    assert of_v is None
    (of_net,) = torch.autograd.grad(
        sop.explanation_loss(logits, Y, u, v), (logits,), allow_unused=True
    )
    assert of_net is None


def test_at_first_it_is_cross_entropy() -> None:
    stage = make_stage()
    x, i = first_batch(1)
    logits = stage.net(x)
    (terms,) = pass_epoch(stage, make_feed(1))
    plain = torch.nn.functional.cross_entropy(logits, LABELS[i])
    assert terms["classify"] == pytest.approx(plain.item(), rel=1e-5)
    wrong = (logits.argmax(1) != LABELS[i]).double().mean()
    assert terms["explain"] == pytest.approx(2 * float(wrong), rel=1e-5)


def test_corrections_have_a_start_that_is_not_zero() -> None:
    stage = make_stage()
    assert bool((stage.u != 0).all())
    assert bool((stage.v != 0).all())
    assert float(stage.v.abs().max()) < 1e-7
    assert torch.equal(stage.v, make_stage().v)


def test_gradients_are_those_of_finite_differences() -> None:
    y = one_hot(torch.arange(6) % 4, 4).double()
    logits = torch.randn(6, 4, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    u = (0.1 + 0.8 * torch.rand(6, 1, generator=rng("u")).double()).requires_grad_()
    v = 0.2 * torch.rand(6, 4, generator=rng("v")).double()  # no probability is cut off
    assert gradcheck(lambda z, u: sop.corrected_cross_entropy(z, y, u, v), (logits, u))
    v.requires_grad_()
    guess = logits.detach()
    assert gradcheck(lambda u, v: sop.explanation_loss(guess, y, u, v), (u, v))


def test_a_hopeless_label_stays_finite() -> None:
    logits = torch.tensor([[200.0, 0, 0]], requires_grad=True)
    y = torch.tensor([[0.0, 1, 0]])
    u, v = torch.full((1, 1), 1e-8, requires_grad=True), torch.ones(1, 3, requires_grad=True)
    value = sop.corrected_cross_entropy(logits, y, u, v)
    slopes = torch.autograd.grad(value, (logits, u))
    assert bool(value.isfinite())
    assert all(bool(slope.isfinite().all()) for slope in slopes)


def test_corrections_move_by_their_own_rates() -> None:
    stage = grown(u_rate=3.0, v_rate=5.0)
    u, v = (t.clone().requires_grad_() for t in (stage.u, stage.v))
    x, i = first_batch(2)
    logits, y = stage.net(x).detach(), one_hot(LABELS[i], 3)
    loss = sop.corrected_cross_entropy(logits, y, u[i], v[i])
    loss = loss + sop.explanation_loss(logits, y, u[i], v[i])
    of_u, of_v = torch.autograd.grad(loss, (u, v))
    pass_epoch(stage, make_feed(2))
    assert torch.allclose(stage.u, u - 3 * of_u, atol=1e-6)
    assert torch.allclose(stage.v, v - 5 * of_v, atol=1e-6)


def test_samples_that_no_batch_visits_stay() -> None:
    stage = grown()
    before = stage.u.clone()
    pass_epoch(stage, make_feed(2, 22))  # the rest of two is skipped
    assert int((stage.u != before).any(1).sum()) == 22


def test_two_processes_move_corrections_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, start = grown(), grown()
    pass_epoch(whole, make_feed(2, 12))
    one, two = pass_halves(grown, monkeypatch)
    for name in ("u", "v"):
        after, before = getattr(whole, name), getattr(start, name)
        moved = getattr(one, name) + getattr(two, name) - 2 * before
        assert torch.allclose(after, before + moved, atol=1e-5)


def test_presets_follow_paper_and_code() -> None:
    c = read_preset(sop.Config, "sop", "cifar10")
    assert (c.u_rate, c.v_rate, c.schedule.epochs) == (10, 10, 120)
    c = read_preset(sop.Config, "sop", "cifar100")
    assert (c.u_rate, c.v_rate, c.schedule.epochs, c.schedule.weight_decay) == (1, 10, 150, 1e-3)
