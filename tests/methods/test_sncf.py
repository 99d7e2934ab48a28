"""SNCF: features without labels, clusters, then a classifier guided by both."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import normalize

from drpl.data.strong import StrongVectors
from drpl.detection.clusters import CLEAN, OTHER, OUTSIDE
from drpl.methods import sncf
from drpl.randomness import rng
from drpl.training.contrastive import contrastive_losses
from drpl.training.feed import Feed
from drpl.training.losses import Mix, cross_entropy, one_hot, sharpen
from tests.support.stages import make_feed, make_net, pass_epoch
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
KINDS = torch.tensor([CLEAN] * 12 + [OTHER] * 6 + [OUTSIDE] * 6)
F1 = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
F2 = torch.tensor([[0.8, 0.6], [0.6, 0.8]])


class StillRun:
    """What the second stage asks a run for."""

    labels, classes = LABELS, 3
    network = staticmethod(make_net)
    rng = staticmethod(rng)


def read_config(**settings: Any) -> sncf.Config:
    return read_preset(sncf.Config, "sncf", "small", settings={"embedding": 5, **settings})


def make_guided(kinds: Tensor = KINDS, **settings: Any) -> sncf.Guided:
    groups = torch.where(kinds == OUTSIDE, torch.arange(24) // 3, 0)
    return sncf.Guided(StillRun(), read_config(**settings), kinds, groups)  # type: ignore[arg-type]


def make_strong_feed(epoch: int, batch: int = 24) -> Feed:
    feed = make_feed(epoch, batch)
    strong = StrongVectors(feed.eval_transform, torch.ones(4), 0.2, 0.0)  # type: ignore[arg-type]
    feed.strong_transform = strong
    return feed


def test_the_loss_of_the_features_by_hand() -> None:
    wanted = Mix(0.7, torch.tensor([1, 0])).blend(torch.eye(2))
    assert contrastive_losses(F1, F2, wanted, 0.2).mean().item() == pytest.approx(
        0.613262, abs=5e-7
    )


def test_gradients_are_those_of_finite_differences() -> None:
    f, near = (
        torch.randn(4, 3, generator=rng(k), dtype=torch.float64).requires_grad_() for k in (1, 2)
    )
    wanted = Mix(0.8, torch.tensor([2, 0, 3, 1])).blend(torch.eye(4)).double()

    def loss(f: Tensor, near: Tensor) -> Tensor:
        return contrastive_losses(normalize(f, dim=1), normalize(near, dim=1), wanted, 0.5).mean()

    assert gradcheck(loss, (f, near))


def test_features_ask_for_no_label_and_end_with_embeddings() -> None:
    epochs = {"features_schedule": {"epochs": 2, "lr": [[1, 0.1]]}}
    stage = sncf.Contrast(make_net(), 24, read_config(hidden=[6], **epochs), rng("head"))
    assert not hasattr(stage, "labels")
    pass_epoch(stage, make_strong_feed(1))
    assert float(stage.embeddings.abs().sum()) == 0
    (terms,) = pass_epoch(stage, make_strong_feed(2))
    assert set(terms) == {"contrast"}
    assert torch.allclose(stage.embeddings.float().norm(dim=1), torch.ones(24), atol=1e-2)


def test_clean_samples_come_first() -> None:
    stage = make_guided(begin=2)
    feed = make_strong_feed(1, 6)
    steps = pass_epoch(stage, feed)
    assert len(steps) == 2
    assert set(steps[0]) == {"classify"}
    assert feed.predictions.visited.nonzero().flatten().tolist() == list(range(12))


def test_then_as_many_of_each_kind() -> None:
    stage = make_guided(begin=2)
    feed = make_strong_feed(3, 18)
    steps = pass_epoch(stage, feed)
    assert len(steps) == 2  # of six clean ones each
    assert set(steps[0]) == {"classify", "contrast"}
    assert bool(feed.predictions.visited.all())


def test_without_other_kinds_clean_samples_suffice() -> None:
    stage = make_guided(torch.full((24,), CLEAN), begin=2)
    assert len(pass_epoch(stage, make_strong_feed(3, 24))) == 3


def test_a_batch_of_all_kinds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(x: Tensor, *_: Any, **__: Any) -> Mix:
        return Mix(1.0, torch.arange(len(x)))

    monkeypatch.setattr(sncf, "draw_mix", whole)
    monkeypatch.setattr(sncf, "mixup", lambda x, t, *_, **__: (x, t, None))
    stage, feed = make_guided(begin=2), make_strong_feed(3)
    x, other, first, second, i = next(iter(feed(views=2, strong=2)))
    terms = stage.compare(feed, x, other, first, second, i)
    kinds, labels = KINDS[i], LABELS[i]
    p = stage.net(x).softmax(1)  # vectors have one weak view
    guess = sharpen(p, 0.5).detach()
    given = one_hot(labels, 3)
    clean = kinds == CLEAN
    z = torch.cat([stage.net(x)[clean], stage.net(x)[clean], stage.net(x)[kinds == OTHER]])
    t = torch.cat([given[clean], given[clean], guess[kinds == OTHER]])
    assert terms["classify"].item() == pytest.approx(cross_entropy(z, t).item(), rel=1e-5)
    names = torch.where(clean, labels, guess.argmax(1))
    names = torch.where(kinds == OUTSIDE, 3 + i // 3, names)
    f, near = (stage.head(stage.net, v)[1] for v in (first, second))
    same = (names[:, None] == names[None]).float()
    log_q = (f @ near.T / 0.2).log_softmax(1)
    wanted = -((same * log_q).sum(1) / same.sum(1)).mean()
    assert terms["contrast"].item() == pytest.approx(wanted.item(), rel=1e-5)


def test_presets_follow_the_released_code() -> None:
    c = read_preset(sncf.Config, "sncf", "cifar100")
    assert (c.sizes, c.smallest, c.cautious, c.begin) == ((75, 50, 25), 75, False, 30)
    assert (c.features_schedule.epochs, c.schedule.epochs) == (2000, 100)
    assert [c.schedule.lr_at(e) for e in (50, 51, 80, 81)] == [0.1, 0.01, 0.01, 0.001]
    web = read_preset(sncf.Config, "sncf", "webvision")
    assert (web.sizes, web.smallest, web.cautious) == ((100, 75, 50), 50, True)
