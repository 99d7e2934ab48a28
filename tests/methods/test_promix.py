"""ProMix: two networks that believe small losses and sure predictions, class by class."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from drpl.data.strong import StrongVectors
from drpl.methods import promix
from drpl.randomness import rng
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, masked_cross_entropy, one_hot, sharpen
from drpl.training.prior import ClassPrior
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
Z = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.float64)


def make_stage(**settings: Any) -> promix.ProMix:
    config = read_preset(promix.Config, "promix", "small", settings=settings)
    return promix.ProMix([make_net(1), make_net(2)], LABELS, 3, config, rng("second"))


def make_strong_feed(epoch: int, batch: int = 24) -> Feed:
    feed = make_feed(epoch, batch)
    strong = StrongVectors(feed.eval_transform, torch.ones(4), 0.2, 0.0)  # type: ignore[arg-type]
    feed.strong_transform = strong
    return feed


def skewed(decay: float = 0.9) -> ClassPrior:
    prior = ClassPrior(3, decay).double()
    prior.shares.copy_(torch.tensor([0.5, 0.3, 0.2]))
    return prior


def test_frequent_classes_are_held_back() -> None:
    prior = skewed()
    label = prior(Z, -0.8).softmax(1)
    assert label[0].tolist() == pytest.approx([0.544879, 0.301637, 0.153484], abs=1e-6)
    logits = prior(Z, 0.8)
    assert logits.softmax(1)[0].tolist() == pytest.approx([0.763655, 0.186691, 0.049654], abs=1e-6)
    loss = functional.cross_entropy(logits, torch.tensor([2]))
    assert loss.item() == pytest.approx(3.002672, abs=1e-6)


def test_the_prior_follows_the_mean_prediction() -> None:
    prior = skewed()
    probs = torch.tensor([[0.1, 0.1, 0.8], [0.3, 0.1, 0.6], [1.0, 0, 0]]).double()
    prior.follow(probs, torch.tensor([True, True, False]))
    assert prior.shares.tolist() == pytest.approx([0.47, 0.28, 0.25])
    prior.follow(probs, torch.zeros(3, dtype=torch.bool))  # by nobody it stays
    assert prior.shares.tolist() == pytest.approx([0.47, 0.28, 0.25])


def test_gradients_are_those_of_finite_differences() -> None:
    logits = torch.randn(6, 3, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    t = torch.randn(6, 3, generator=rng("t"), dtype=torch.float64).softmax(1)
    mask, prior = torch.tensor([1, 0, 1, 1, 0, 0]).bool(), skewed()
    assert gradcheck(lambda z: masked_cross_entropy(prior(z, 0.8), t, mask), logits)
    nobody = masked_cross_entropy(logits, t, torch.zeros(6, dtype=torch.bool))
    (slope,) = torch.autograd.grad(nobody, logits)
    assert nobody.item() == 0
    assert float(slope.abs().sum()) == 0


def test_the_warm_up_by_hand() -> None:
    stage = make_stage(begin=2)
    x, i = first_batch(1)
    answers = [net(x).detach() for net in stage.net.members]
    (terms,) = pass_epoch(stage, make_strong_feed(1))
    wanted = [float(cross_entropy(z, one_hot(LABELS[i], 3))) for z in answers]
    assert terms == pytest.approx({"classify 1": wanted[0], "classify 2": wanted[1]})


def sure_of(label: Tensor, confidence: float = 0.999) -> Tensor:
    rest = (1 - confidence) / 2
    return one_hot(label, 3) * (confidence - rest) + rest


def test_who_is_believed() -> None:
    stage = make_stage(begin=2, agree_from=5)
    i = torch.arange(10)
    small = torch.arange(10) < 3
    own = sure_of(torch.where(i < 5, LABELS[i], (LABELS[i] + 1) % 3))
    own[9] = 1 / 3
    peer = own.clone()
    peer[8] = sure_of((LABELS[8:9] + 2) % 3)[0]
    chosen, targets = stage.believe(0, small, (own, peer), i, 4)
    assert chosen.tolist() == [True] * 5 + [False] * 5  # small, or sure of the label
    assert torch.equal(targets, one_hot(LABELS[i], 3))
    chosen, targets = stage.believe(0, small, (own, peer), i, 5)
    assert chosen.tolist() == [True] * 8 + [False] * 2  # both agree on another class
    assert targets.argmax(1)[5:8].tolist() == ((LABELS[5:8] + 1) % 3).tolist()
    assert targets.argmax(1)[8:].tolist() == LABELS[8:10].tolist()


def test_agreed_labels_fill_a_batch_to_nine_tenths() -> None:
    stage = make_stage(begin=2, agree_from=3)
    i = torch.arange(20)
    other = (LABELS[i] + 1) % 3
    own = torch.cat([sure_of(other[k : k + 1], 0.995 + k / 10_000) for k in range(20)])
    chosen, _ = stage.believe(1, i < 10, (own, own), i, 3)
    assert int(chosen.sum()) == 18
    assert chosen[10:12].tolist() == [False, False]  # the least sure ones


def test_what_the_others_teach_by_hand() -> None:
    stage = make_stage(ramp=10.0, others=0.1)
    stage.unbelieved[1].get_buffer("shares").copy_(torch.tensor([0.5, 0.3, 0.2]))
    first, weak, strong = torch.randn(3, 4, 3, generator=rng("z")).unbind()
    mask = torch.tensor([True, False, True, False])
    bias = 0.8 * torch.tensor([0.5, 0.3, 0.2]).log()
    q = sharpen((first - bias).softmax(1), 0.5)
    h = [-(q * (z + bias).log_softmax(1)).sum(1)[mask].mean() for z in (weak, strong)]
    found = stage.fit_others(1, first, (weak, strong), mask, 6)
    assert float(found) == pytest.approx(0.1 * 0.25 * float(h[0] + 0.5 * h[1]), rel=1e-5)
    late = stage.fit_others(1, first, (weak, strong), mask, 500)
    assert float(late) == pytest.approx(0.1 * float(h[0] + h[1]), rel=1e-5)
    nobody = stage.fit_others(1, first, (weak, strong), ~mask & mask, 6)
    assert float(nobody) == 0


def test_an_epoch_trains_both() -> None:
    stage = make_stage(begin=2, share=0.5)
    steps = pass_epoch(stage, make_strong_feed(3, 12))
    assert len(steps) == 2
    terms = {f"{what} {k}" for what in ("first", "second", "others") for k in (1, 2)}
    assert all(set(step) == terms for step in steps)
    assert all(p.grad is not None for p in stage.parameters())
    for priors in (stage.believed, stage.unbelieved):
        assert all(float(p.get_buffer("shares").sum()) == pytest.approx(1) for p in priors)
        assert all(float(p.get_buffer("shares").std()) > 0 for p in priors)


def test_presets_follow_the_released_code() -> None:
    c = read_preset(promix.Config, "promix", "cifar10")
    assert (c.begin, c.sure, c.debias, c.agree_from) == (10, 0.99, 0.8, 351)
    assert c.schedule.lr_at(1) == 0.05
    assert c.schedule.lr_at(301) == pytest.approx(0.025025)
    c = read_preset(promix.Config, "promix", "cifar100")
    assert (c.begin, c.sure, c.debias) == (30, 0.95, 0.5)
