"""Dynamic bootstrapping: a mixture of losses decides whose label is replaced."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import betaincinv
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.nn import functional

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.detection.mixture import BetaMixture, Scale
from drpl.methods import bootstrap, mixup
from drpl.randomness import rng
from drpl.training.evaluate import label_losses
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, from_uniform, one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, scale_weights
from tests.support.tiny import read_preset, tiny_config, tiny_network

LABELS = torch.arange(24) % 3
GIVEN = one_hot(LABELS, 3)


def make_config(**settings: Any) -> bootstrap.Config:
    settings = {"begin": 3} | settings
    return read_preset(bootstrap.Config, "bootstrap", "cifar10", settings=settings)


class Fixed(bootstrap.Bootstrap):
    """Bootstrapping whose w is given."""

    w = torch.zeros(24)

    def estimate_noise(self, x: Tensor, i: Tensor, feed: Feed) -> Tensor:
        return self.w[i][:, None]


def nll(f: Tensor, labels: Tensor) -> Tensor:
    return functional.nll_loss(f, labels, reduction="none")


def test_bootstrapping_begins_as_mixup_with_alpha_32() -> None:
    stage = bootstrap.Bootstrap(make_net(), GIVEN, make_config())
    for epoch in (1, 2):
        assert pass_epoch(stage, make_feed(epoch, 8)) == pass_epoch(
            mixup.Mixup(make_net(), GIVEN, 32.0), make_feed(epoch, 8)
        )
    assert set(pass_epoch(stage, make_feed(3))[0]) == {"bootstrap", "prior"}


def test_without_noise_bootstrapping_is_mixup_and_the_prior() -> None:
    stage, plain = Fixed(make_net(), GIVEN, make_config()), mixup.Mixup(make_net(), GIVEN, 32.0)
    for ours, theirs in zip(
        pass_epoch(stage, make_feed(3, 8)), pass_epoch(plain, make_feed(3, 8)), strict=True
    ):
        assert ours["bootstrap"] == theirs["mixup"]
        assert ours["prior"] >= np.log(3) - 1e-6  # its least: all classes alike


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_the_bootstrapped_loss_is_the_papers(kind: str) -> None:
    stage = Fixed(make_net(), GIVEN, make_config(kind=kind, prior=0.5))
    stage.w = torch.rand(24, generator=rng("w"))
    x, i = first_batch(3)
    w, y = stage.w[i], LABELS[i]
    draws = make_feed(3).rng
    weight = float(betaincinv(32, 32, float(torch.rand((), generator=draws, dtype=torch.float64))))
    partner = torch.randperm(24, generator=draws)
    with torch.no_grad():
        plain = stage.net(x).softmax(1)
        mixed = stage.net(weight * x + (1 - weight) * x[partner])
    f = mixed.log_softmax(1)

    def half(w: Tensor, y: Tensor, plain: Tensor) -> Tensor:
        own = -(plain * f).sum(1) if kind == "soft" else nll(f, plain.argmax(1))
        return ((1 - w) * nll(f, y) + w * own).mean()

    other = half(w[partner], y[partner], plain[partner])
    wanted = weight * half(w, y, plain) + (1 - weight) * other
    away = (torch.log((1 / 3) / mixed.softmax(1).mean(0)) / 3).sum()
    terms = pass_epoch(stage, make_feed(3))[0]
    assert terms["bootstrap"] == pytest.approx(float(wanted), rel=1e-5)
    assert terms["prior"] == pytest.approx(0.5 * float(away + np.log(3)), rel=1e-5)


def test_the_mixture_is_refitted_only_when_it_will_be_used() -> None:
    stage = bootstrap.Bootstrap(make_net(), GIVEN, make_config())
    untouched = stage.fitted.clone()
    pass_epoch(stage, make_feed(1))
    assert torch.equal(stage.fitted, untouched)
    pass_epoch(stage, make_feed(2))
    view = make_feed(2)
    list(view())  # the look comes after the pass
    m = BetaMixture.fit(label_losses(view.predict_all(stage.net, augmented=True), LABELS))
    assert m.scale
    wanted = [m.alpha, m.beta, m.weight, (m.scale.lo, m.scale.hi)]
    assert torch.equal(stage.fitted, torch.tensor(wanted, dtype=torch.float64))
    scale_weights(stage, 2)
    pass_epoch(stage, make_feed(3))
    assert not torch.equal(stage.fitted, torch.tensor(wanted, dtype=torch.float64))


def test_w_is_the_clipped_posterior_of_the_loss_in_evaluation_mode() -> None:
    body = nn.Sequential(nn.BatchNorm1d(4), make_net())
    stage = bootstrap.Bootstrap(body, GIVEN, make_config())
    x, i = first_batch(3)
    assert torch.allclose(
        stage.estimate_noise(x, i, make_feed(3)), torch.tensor(1e-4)
    )  # no mixture yet: all are clean
    pass_epoch(stage, make_feed(2))
    before = stage.state_dict()["net.0.running_mean"].clone()
    w = stage.estimate_noise(x, i, make_feed(3))
    assert torch.equal(before, stage.state_dict()["net.0.running_mean"])
    assert stage.net.training
    with torch.no_grad():
        body.eval()
        each = functional.cross_entropy(body(x), LABELS[i], reduction="none")
    alpha, beta, weight, (lo, hi) = map(tuple, stage.fitted.tolist())
    m = BetaMixture(alpha, beta, weight, Scale(lo, hi))
    assert torch.allclose(w[:, 0].double(), m.noisy(each).clamp(1e-4, 1 - 1e-4), atol=1e-6)
    assert w.max() > 0.5 > w.min()


def test_soft_to_hard_first_mixes_by_w_then_doubts_then_hardens() -> None:
    settings = make_config(kind="soft_to_hard", delay=2, cooling=3)
    asked: list[float] = []

    class Guided(bootstrap.SoftToHard):
        w = torch.rand(24, generator=rng("w"))

        def estimate_noise(self, x: Tensor, i: Tensor, feed: Feed) -> Tensor:
            return self.w[i][:, None]

        def guess(self, x: Tensor, temperature: float = 1.0) -> Tensor:
            asked.append(temperature)
            return super().guess(x, temperature)

    stage = Guided(make_net(), GIVEN, settings)
    assert [set(pass_epoch(stage, make_feed(epoch))[0]) for epoch in (3, 4)] == [
        {"mixup"},
        {"mixup"},
    ]
    for epoch in (5, 6, 7, 8):
        assert set(pass_epoch(stage, make_feed(epoch))[0]) == {"bootstrap", "prior"}
    assert asked == pytest.approx([1, 0.5005, 0.001, 0.001])
    x, _ = first_batch(8)
    assert torch.allclose(stage.guess(x, 0.001).max(1).values, torch.ones(24), atol=0.05)


def test_guided_pairs_favour_the_clean_image() -> None:
    x, t = torch.randn(6, 2, 3, 3, generator=rng("x")), one_hot(torch.arange(6) % 3, 3)
    w = torch.tensor([0.9, 0.1, 0.5, 0.0, 0.3, 1 - 1e-4])[:, None]
    mixed, targets = bootstrap.mix_by_noise(x, t, w, 0.25, rng("pairs"))
    partner = torch.randperm(6, generator=rng("pairs"))
    for k, other in enumerate(partner.tolist()):
        own, theirs = 1 - float(w[k]), 1 - float(w[other])
        wanted = (own * x[k] + theirs * x[other]) / (own + theirs)
        assert torch.allclose(mixed[k], wanted, atol=1e-5)
        assert torch.allclose(targets[k], 0.25 * t[k] + 0.75 * t[other])


@pytest.mark.parametrize("setting", [{"kind": "soft"}, {"kind": "soft_to_hard"}, {"lookup": True}])
def test_the_kinds_of_bootstrapping_learn(
    setting: dict[str, Any], tiny: DatasetSplits, tmp_path: Path
) -> None:
    wanted = tiny_config("bootstrap", 8, setting, {"delay": 1, "cooling": 3})
    result = drpl.train(
        tiny,
        method="bootstrap",
        config=wanted,
        network=tiny_network,
        noise="uniform:0.3",
        out=tmp_path,
        quiet=True,
    )
    assert (result.accuracy["best"] or 0) > 60


def test_the_gradient_is_that_of_the_loss() -> None:
    logits = torch.randn(6, 4, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    t = torch.randn(6, 4, generator=rng("t"), dtype=torch.float64).softmax(1)
    assert gradcheck(lambda z: cross_entropy(z, t) + from_uniform(z.softmax(1)), logits)


def test_presets_follow_the_paper() -> None:
    c = read_preset(bootstrap.Config, "bootstrap", "cifar10")
    assert (c.begin, c.kind, c.alpha, c.prior) == (106, "hard", 32, 1)
    assert [c.schedule.lr_at(e) for e in (99, 100, 249, 250)] == [0.1, 0.01, 0.01, 0.001]
    assert read_preset(bootstrap.Config, "bootstrap", "webvision").begin == 102
    assert read_preset(bootstrap.Config, "bootstrap", "cifar10", "released").lookup
