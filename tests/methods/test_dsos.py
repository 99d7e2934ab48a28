"""Dynamic softening: labels of images of no class are spread, those of another class replaced."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from drpl.methods import dsos
from drpl.randomness import rng
from drpl.training.losses import cross_entropy, entropy, one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3


def make_stage(**settings: Any) -> dsos.Soften:
    config = read_preset(dsos.Config, "dsos", "small", settings=settings)
    return dsos.Soften(make_net(), LABELS, 3, config)


def test_softened_labels_by_hand() -> None:
    belief = torch.tensor([1.0, 0.5, 0.25, 0.1, 0.0])
    labels = one_hot(torch.full((5,), 7), 100)
    soft = dsos.soften(labels, belief, 0.05)
    found = soft[:, 7].tolist()
    assert found == pytest.approx([1, 0.995526, 0.599860, 0.069453, 0.01], abs=1e-6)
    assert torch.allclose(soft.sum(1), torch.ones(5))


def test_gradients_are_those_of_finite_differences() -> None:
    logits = torch.randn(6, 4, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    t = torch.randn(6, 4, generator=rng("t"), dtype=torch.float64).softmax(1)
    assert gradcheck(lambda z: cross_entropy(z, t) + 0.4 * entropy(z.softmax(1)), logits)


def test_an_early_epoch_by_hand() -> None:
    stage = make_stage(begin=9, mix_early=False)
    x, i = first_batch(1)
    logits = stage.net(x).detach()
    (terms,) = pass_epoch(stage, make_feed(1))
    assert terms["classify"] == pytest.approx(float(cross_entropy(logits, stage.targets[i])))
    assert terms["entropy"] == pytest.approx(0.4 * float(entropy(logits.softmax(1))))
    assert torch.equal(stage.targets, one_hot(LABELS, 3))


def test_batches_are_larger_and_mixed_as_asked() -> None:
    assert len(pass_epoch(make_stage(begin=2, early_batch=2), make_feed(1, 6))) == 2
    late = make_stage(begin=2, early_batch=2)
    assert len(pass_epoch(late, make_feed(3, 6))) == 4
    mixed, plain = (
        pass_epoch(make_stage(begin=9, mix_early=m), make_feed(1))[0]["classify"]
        for m in (True, False)
    )
    assert mixed != plain


def seen() -> Tensor:
    """Of 24 samples one half is predicted as labelled, a quarter as another class, one as none."""
    probs = torch.full((24, 10), 0.002)
    labels = LABELS.clone()
    labels[12:18] = (labels[12:18] + 1) % 3
    probs.scatter_(1, labels[:, None], 0.982)
    spread = torch.full((6, 10), 0.1) + 0.01 * torch.rand(6, 10, generator=rng("spread"))
    probs[18:] = spread / spread.sum(1, keepdim=True)
    return probs


def test_targets_follow_what_is_seen() -> None:
    config = read_preset(dsos.Config, "dsos", "small")
    stage = dsos.Soften(make_net(), LABELS, 10, config)
    visited = torch.ones(24, dtype=torch.bool)
    visited[[0, 20]] = False
    stage.retarget(seen(), visited)
    assert torch.equal(stage.targets[:12].argmax(1), LABELS[:12])
    assert float(stage.targets[:12].amax(1).min()) > 0.999
    assert torch.equal(stage.targets[12:18].argmax(1), (LABELS[12:18] + 1) % 3)
    spread = [18, 19, 21, 22, 23]
    assert float(stage.targets[spread].amax(1).max()) < 0.2
    assert torch.equal(stage.targets[[0, 20]], one_hot(LABELS[[0, 20]], 10))


def test_batch_norm_is_tuned_to_images_that_are_not_mixed() -> None:
    torch.manual_seed(1)
    config = read_preset(dsos.Config, "dsos", "small", settings={"begin": 2})
    norm = torch.nn.BatchNorm1d(4, momentum=1.0)  # remembers the last batch only
    net = torch.nn.Sequential(norm, torch.nn.Linear(4, 3))
    pass_epoch(dsos.Soften(net, LABELS, 3, config), make_feed(2))
    (x,) = (x for x, _ in make_feed(2)())
    assert torch.allclose(norm.running_mean, x.mean(0), atol=1e-6)  # type: ignore[arg-type]


def test_presets_follow_the_released_code() -> None:
    c = read_preset(dsos.Config, "dsos", "cifar100")
    assert (c.begin, c.softness, c.entropy, c.schedule.epochs) == (51, 0.05, 0.4, 100)
    assert [c.schedule.lr_at(e) for e in (50, 51, 80, 81)] == [0.03, 0.003, 0.003, 0.0003]
    assert (c.schedule.batch_size, c.early_batch) == (32, 2)
    web = read_preset(dsos.Config, "dsos", "webvision")
    assert (web.schedule.lr_at(1), web.schedule.weight_decay) == (0.01, 0.0005)
