"""Multi-objective interpolation: a classifier and an embedding on mixed images."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import normalize

from drpl.data.strong import StrongVectors
from drpl.detection import neighbours
from drpl.detection.consensus import share_soft_labels
from drpl.methods import moit
from drpl.randomness import rng
from drpl.training.feed import Feed
from drpl.training.losses import Mix, cross_entropy, one_hot
from tests.support.stages import make_feed, make_net, pass_epoch
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3
A = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
B = torch.tensor([[0.8, 0.6], [0.6, 0.8]])
SWAP = Mix(0.7, torch.tensor([1, 0]))


def make_stage(**settings: Any) -> moit.Interpolate:
    config = read_preset(moit.Config, "moit", "small", settings={"embedding": 5, **settings})
    return moit.Interpolate(make_net(), LABELS, 3, config, rng("head"))


def make_strong_feed(epoch: int) -> Feed:
    feed = make_feed(epoch)
    strong = StrongVectors(feed.eval_transform, torch.ones(4), 0.2, 0.0)  # type: ignore[arg-type]
    feed.strong_transform = strong
    return feed


def test_the_contrastive_loss_by_hand() -> None:
    found = moit.interpolated(torch.cat([A, B]), torch.tensor([0, 1]), [SWAP, SWAP], 0.1)
    assert found.item() == pytest.approx(1.746802, abs=2e-6)


def test_the_partners_own_views_count_twice() -> None:
    """Three of one class: the partner of each row is wanted as much as the other two views."""
    z = normalize(torch.randn(6, 4, generator=rng("z")), dim=1)
    labels, partner = torch.zeros(3, dtype=torch.int64), torch.tensor([1, 2, 0])
    found = moit.interpolated(z, labels, [Mix(0.5, partner)] * 2, 0.1)
    logits = (z @ z.T / 0.1).fill_diagonal_(-torch.inf)
    log_q = logits.log_softmax(1).fill_diagonal_(0)
    total = torch.tensor(0.0)
    for i in range(6):
        weight = torch.ones(6)
        weight[i] = 0
        first = -(weight * log_q[i]).sum() / weight.sum()
        weight[[int(partner[i % 3]), int(partner[i % 3]) + 3]] += 1
        total += 0.5 * first - 0.5 * (weight * log_q[i]).sum() / weight.sum()
    assert found.item() == pytest.approx(float(total) / 6, rel=1e-5)


def test_the_memory_is_compared_with_beside_the_batch() -> None:
    z, labels = torch.cat([A, B]).requires_grad_(), torch.tensor([0, 1])
    nothing = torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)
    alone = moit.interpolated(z, labels, [SWAP, SWAP], 0.1)
    assert moit.interpolated(z, labels, [SWAP, SWAP], 0.1, nothing).item() == pytest.approx(
        alone.item()
    )
    far = torch.tensor([[-1.0, 0.0]]), torch.tensor([2])
    third = moit.interpolated(z, labels, [SWAP, SWAP], 0.1, far)
    assert third.item() > alone.item()  # one more that it is to be far from
    nearer = moit.interpolated(z, labels, [SWAP, SWAP], 0.1, (A[:1], torch.tensor([0])))
    assert nearer.item() != pytest.approx(third.item())


def test_gradients_are_those_of_finite_differences() -> None:
    z = torch.randn(6, 3, generator=rng("z"), dtype=torch.float64, requires_grad=True)
    labels, partner = torch.tensor([0, 1, 0]), torch.tensor([2, 0, 1])
    mixes = [Mix(0.8, partner), Mix(0.6, partner.flip(0))]

    def loss(z: Tensor) -> Tensor:
        return moit.interpolated(normalize(z, dim=1), labels, mixes, 0.5)

    assert gradcheck(loss, z)


def test_as_many_are_clean_in_each_class_as_in_the_median_one() -> None:
    labels = torch.arange(60) % 3
    soft = torch.full((60, 3), 0.1)
    soft[:, 0] = 0.8  # class 0 agrees, the others do not
    soft[labels == 1] = torch.tensor([0.1, 0.8, 0.1])
    soft[1, 1], soft[4] = (
        0.9,
        torch.tensor([0.6, 0.2, 0.2]),
    )  # one of class 1 agrees most, one does not
    clean = moit.choose_clean(soft, labels)
    assert [int(clean[labels == c].sum()) for c in range(3)] == [19, 19, 19]  # 20, 19, 0 agree
    assert bool(clean[1])
    assert not bool(clean[4])
    # Of equal ones the first are taken.
    assert clean[labels == 2].tolist() == [True] * 19 + [False]


def test_every_class_keeps_a_few() -> None:
    soft = one_hot((torch.arange(60) + 1) % 3, 3)
    clean = moit.choose_clean(soft, torch.arange(60) % 3)
    assert int(clean.sum()) == 18


def test_targets_of_samples_that_disagree() -> None:
    stage = make_stage(begin=2)
    stage.clean[5:] = False
    feed = make_strong_feed(3)
    *_, x, i = next(iter(feed(views=0, strong=2, plain=True)))
    early = stage.find_targets(feed, x, i, False)
    assert torch.equal(early, one_hot(LABELS[i], 3))
    late = stage.find_targets(feed, x, i, True)
    guess = stage.net(x).detach().softmax(1)
    assert torch.equal(late[i < 5], early[i < 5])
    assert torch.allclose(late[i >= 5], guess[i >= 5])
    assert not late.requires_grad


def test_an_epoch_looks_remembers_and_finds() -> None:
    stage = make_stage(begin=2, memory=16, remember_from=2)
    (terms,) = pass_epoch(stage, make_strong_feed(1))
    assert set(terms) == {"classify", "contrast"}
    assert stage.memory.is_full()
    assert float(stage.embeddings.abs().sum()) == 0
    (terms,) = pass_epoch(stage, make_strong_feed(2))
    assert set(terms) == {"classify", "contrast", "memory"}
    lengths = stage.embeddings.float().norm(dim=1)
    assert torch.allclose(lengths, torch.ones(24), atol=1e-2)
    counts = {int(stage.clean[stage.labels == c].sum()) for c in range(3)}
    assert len(counts) == 1


def test_many_samples_are_judged_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit neighbours are found in memory; here the pool has all but one sample."""
    vectors = normalize(torch.randn(24, 5, generator=rng("many")), dim=1)
    wanted = share_soft_labels(vectors, LABELS, 3)
    monkeypatch.setattr(neighbours, "find_spec", lambda name: None)
    monkeypatch.setattr(neighbours, "MOST", 23)
    found = share_soft_labels(vectors, LABELS, 3)
    assert float((found - wanted).abs().mean()) < 0.1
    stage = make_stage(begin=1)
    pass_epoch(stage, make_strong_feed(1))
    assert stage.clean.device == stage.labels.device
    assert bool(stage.clean.any())


def test_unmixed_targets_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Mix(1.0, torch.arange(24))
    monkeypatch.setattr(moit, "draw_mix", lambda *_, **__: whole)
    stage = make_stage(begin=9)
    first, second, _, i = next(iter(make_strong_feed(1)(views=0, strong=2, plain=True)))
    logits = stage.net(torch.cat([first, second])).detach()
    (terms,) = pass_epoch(stage, make_strong_feed(1))
    wanted = cross_entropy(logits, one_hot(LABELS[i], 3).repeat(2, 1))
    assert terms["classify"] == pytest.approx(float(wanted), rel=1e-5)


def test_presets_follow_the_released_code() -> None:
    for preset, size in (("cifar10", 2000), ("cifar100", 20000)):
        c = read_preset(moit.Config, "moit", preset)
        assert c.memory * (10 if preset == "cifar10" else 100) == size
        assert (c.begin, c.schedule.epochs, c.schedule.batch_size) == (130, 250, 128)
        assert [c.schedule.lr_at(e) for e in (125, 126, 200, 201)] == [0.1, 0.01, 0.01, 0.001]
        assert (c.strong.area, c.strong.operations, c.strong.jitter) == (0.08, 0, 0.8)
