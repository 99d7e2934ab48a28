"""PLS: guesses for noisy labels, trusted by their own loss."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from drpl.methods import pls
from drpl.randomness import rng
from drpl.training.contrastive import contrastive_losses
from drpl.training.losses import Mix, from_uniform, one_hot, sharpen
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, pass_halves
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
ALONE = Mix(1.0, torch.arange(2))


def make_stage(**settings: Any) -> pls.PseudoLossSelection:
    settings = {"embedding": 5, **settings}
    config = read_preset(pls.Config, "pls", "cifar100", settings=settings)
    return pls.PseudoLossSelection(make_net(), LABELS, 3, config, rng("head"))


def test_a_guess_is_the_sharpened_mean_of_two_views() -> None:
    mean = (torch.tensor([[0.6, 0.3, 0.1]]) + torch.tensor([[0.5, 0.2, 0.3]])) / 2
    wanted = [0.746914, 0.154321, 0.098765]
    assert sharpen(mean, 0.5)[0].tolist() == pytest.approx(wanted, abs=5e-7)


def test_pairs_of_one_class() -> None:
    s = pls.match_pairs(torch.tensor([4, 4]), torch.tensor([1.0, 0.5]), ALONE)
    assert s.tolist() == [[1, 0.5], [0.5, 0.5]]
    f1 = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    f2 = torch.tensor([[0.8, 0.6], [0.6, 0.8]])
    assert contrastive_losses(f1, f2, s, 0.2).mean().item() == pytest.approx(0.729928, abs=1e-6)


def test_pairs_of_mixed_rows() -> None:
    w, swap = torch.tensor([1.0, 0.0]), Mix(0.75, torch.tensor([1, 0]))
    assert pls.match_pairs(torch.tensor([0, 1]), w, ALONE).tolist() == [[1, 0], [0, 1]]
    mixed = pls.match_pairs(torch.tensor([0, 1]), w, swap)
    assert mixed.tolist() == [[0.75, 0.25], [0.25, 0.75]]


def test_untrusted_rows_do_not_count() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    t, w = torch.eye(3)[[0, 2]], torch.tensor([1.0, 0.25])
    losses = functional.cross_entropy(logits, torch.tensor([0, 2]), reduction="none")
    found = pls.weigh_mixed(logits, t, w, ALONE)
    assert float(found) == pytest.approx(float((losses[0] + 0.25 * losses[1]) / 1.25))
    found = pls.weigh_mixed(logits, t, w, Mix(0.6, torch.tensor([1, 0])))
    others = functional.cross_entropy(logits, torch.tensor([2, 0]), reduction="none")
    own = (losses[0] + 0.25 * losses[1]) / 1.25
    assert float(found) == pytest.approx(
        float(0.6 * own + 0.4 * (0.25 * others[0] + others[1]) / 1.25)
    )
    assert float(pls.weigh_mixed(logits, t, torch.zeros(2), ALONE)) == 0


def test_gradients_are_those_of_finite_differences() -> None:
    logits = torch.randn(6, 4, generator=rng("z"), dtype=torch.float64, requires_grad=True)
    t = torch.rand(6, 4, generator=rng("t"), dtype=torch.float64).softmax(1)
    w = torch.rand(6, generator=rng("w"), dtype=torch.float64)
    mix = Mix(0.7, torch.randperm(6, generator=rng("mix")))
    assert gradcheck(lambda z: pls.weigh_mixed(z, t, w, mix), logits)


def test_the_warm_up_is_mixup(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(begin=2)
    monkeypatch.setattr("drpl.training.losses.draw_weight", lambda alpha, rng: 0.2)
    x, i = first_batch(1)
    partner = torch.randperm(24, generator=make_feed(1).rng)
    logits = stage.net(0.8 * x + 0.2 * x[partner])
    t = one_hot(LABELS[i], 3)
    wanted = functional.cross_entropy(logits, 0.8 * t + 0.2 * t[partner])
    (terms,) = pass_epoch(stage, make_feed(1))
    assert terms == {"classify": pytest.approx(wanted.item(), rel=1e-5)}
    assert not stage.noisy.any()  # nothing is judged before the last epoch of the warm-up


def test_an_epoch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(begin=1)
    monkeypatch.setattr("drpl.training.losses.draw_weight", lambda alpha, rng: 1.0)
    stage.noisy.copy_(torch.arange(24) < 8)
    stage.weights.copy_(torch.rand(24, generator=rng("w")))
    noisy, weights = stage.noisy.clone(), stage.weights.clone()
    x, _, s, i = next(iter(make_feed(2)(views=2, strong=1)))
    logits, f = stage.head(stage.net, x)
    _, others = stage.head(stage.net, s)
    p = logits.softmax(1).detach()  # both weak views of a vector are the vector itself
    g = p**2 / (p**2).sum(1, keepdim=True)
    t = torch.where(noisy[i, None], g, one_hot(LABELS[i], 3))
    w = torch.where(noisy[i], weights[i], 1.0)
    (terms,) = pass_epoch(stage, make_feed(2))
    losses = functional.cross_entropy(logits, t, reduction="none")
    assert terms["classify"] == pytest.approx(((w * losses).sum() / w.sum()).item(), rel=1e-4)
    assert terms["prior"] == pytest.approx(from_uniform(p).item(), rel=1e-5)
    same = t.argmax(1)[:, None] == t.argmax(1)[None, :]
    pairs = w[:, None] * w[None, :] * same
    pairs.fill_diagonal_(0)
    pairs += torch.diag(w**2 + (1 - w) ** 2)
    log_q = (f @ others.T / 0.2).log_softmax(1)
    wanted = (-(pairs * log_q).sum(1) / pairs.sum(1)).mean()
    assert terms["pairs"] == pytest.approx(wanted.item(), rel=1e-4)
    torch.testing.assert_close(stage.guesses[i], g)


def test_high_losses_are_noisy_and_confirmed_guesses_trusted() -> None:
    stage = make_stage()
    p = torch.full((24, 3), 0.02)
    p[torch.arange(24), LABELS] = 0.96
    wrong = torch.arange(16, 24)
    p[wrong] = p[wrong].roll(1, 1)  # sure of another class
    stage.guesses[wrong] = torch.where(torch.arange(8)[:, None] < 4, p[wrong], p[wrong].roll(1, 1))
    stage.judge(p.log(), trust_all=True)
    assert stage.noisy.nonzero().flatten().tolist() == wrong.tolist()
    assert stage.weights.tolist() == [1] * 24
    stage.judge(p.log(), trust_all=False)
    assert stage.weights[:16].tolist() == [1] * 16
    assert float(stage.weights[wrong[:4]].min()) > 0.9
    assert float(stage.weights[wrong[4:]].max()) < 0.1
    taught = stage.list_taught()
    assert torch.equal(taught[:16], LABELS[:16])
    assert torch.equal(taught[wrong[:4]], p[wrong[:4]].argmax(1))


def test_a_mixture_wants_more_than_two() -> None:
    stage = make_stage()
    p = torch.full((24, 3), 0.02)
    p[torch.arange(24), LABELS] = 0.96
    p[:2] = p[:2].roll(1, 1)
    stage.weights.fill_(0.3)
    stage.judge(p.log(), trust_all=False)
    assert int(stage.noisy.sum()) == 2
    assert stage.weights.tolist() == [1] * 24


def test_two_processes_guess_for_their_own_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_stage(begin=1)
    first = whole.guesses.clone()
    pass_epoch(whole, make_feed(2, 12))
    one, two = pass_halves(lambda: make_stage(begin=1), monkeypatch)
    changes: list[Tensor] = [part.guesses - first for part in (one, two)]
    torch.testing.assert_close(whole.guesses - first, changes[0] + changes[1], atol=1e-6, rtol=0)


def test_presets_follow_the_released_code() -> None:
    c = read_preset(pls.Config, "pls", "cifar100")
    assert (c.begin, c.noisy_above, c.alpha, c.embedding, c.temperature) == (30, 0.95, 1, 128, 0.2)
    assert (c.schedule.epochs, c.schedule.batch_size, c.schedule.weight_decay) == (200, 256, 5e-4)
    rates = [c.schedule.lr_at(e) for e in (30, 31, 116, 200)]
    assert rates == pytest.approx([0.1, 0.0999916, 0.0495407, 8.43792e-6], rel=1e-5)
    assert (c.strong.jitter, c.strong.grey, c.strong.operations) == (0.8, 0.2, 0)
