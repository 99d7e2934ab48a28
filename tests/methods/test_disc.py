"""DISC: clean, hard and purified by thresholds of the samples' own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.nn import functional

from drpl.methods import disc
from drpl.methods.gce import generalised_loss
from drpl.randomness import rng
from tests.support.stages import make_feed, make_net, pass_epoch, pass_halves
from tests.support.tiny import read_preset

LABELS = torch.arange(24) % 3


def make_stage(**settings: Any) -> disc.Selection:
    config = read_preset(disc.Config, "disc", "cifar10", settings=settings)
    return disc.Selection(make_net(), LABELS, 3, config)


def predict(*rows: list[float]) -> Tensor:
    return torch.tensor(rows)


@pytest.mark.parametrize(("momentum", "wanted"), [(0.99, 0.145691), (0.95, 0.513218)])
def test_thresholds_rise_to_how_sure_predictions_are(momentum: float, wanted: float) -> None:
    config = read_preset(disc.Config, "disc", "cifar10", settings={"momentum": momentum})
    stage = disc.Selection(make_net(), torch.zeros(50_000, dtype=torch.int64), 3, config)
    assert float(stage.thresholds[0, 0]) == pytest.approx(1 / 50_000)
    sure = predict([0.8, 0.1, 0.1])
    for _ in range(20):
        stage.select(slice(0, 1), sure, sure, torch.ones(1, dtype=torch.bool))
    assert stage.thresholds[:, 0].tolist() == pytest.approx([wanted] * 2, abs=5e-7)
    assert float(stage.thresholds[0, 1]) == pytest.approx(1 / 50_000)


def test_the_loss_of_hard_samples() -> None:
    found = generalised_loss(torch.tensor([0.5, 0.9]).log(), 0.7)
    assert found.tolist() == pytest.approx([0.549183, 0.101569], abs=5e-7)


def test_who_is_clean_hard_purified_and_left_out() -> None:
    stage = make_stage(momentum=0.5)
    stage.thresholds.fill_(0.3)
    labels = stage.labels[:6]
    labels[:] = 0
    weak = predict(
        [0.4, 0.4, 0.2],  # beats both
        [0.4, 0.4, 0.2],  # beats the weak one
        [0.2, 0.4, 0.4],  # beats the strong one
        [0.05, 0.9, 0.05],  # beats none, and both are sure of another
        [0.2, 0.7, 0.1],  # beats none, and is not sure enough: above 0.8 on average
        [0.9, 0.1, 0.0],  # was not seen
    )
    strong = predict(
        [0.4, 0.4, 0.2],
        [0.2, 0.4, 0.4],
        [0.4, 0.4, 0.2],
        [0.15, 0.75, 0.1],
        [0.1, 0.8, 0.1],
        [0.9, 0.1, 0.0],
    )
    stage.taught.fill_(2)
    seen = torch.tensor([True] * 5 + [False])
    stage.select(slice(0, 6), weak, strong, seen)
    assert stage.clean[:6].tolist() == [True, False, False, False, False, False]
    assert stage.hard[:6].tolist() == [False, True, True, False, False, False]
    assert stage.taught[:6].tolist() == [0, 0, 0, 1, -1, 2]
    moved = stage.thresholds[:, :6]
    assert moved[0].tolist() == pytest.approx([0.35, 0.35, 0.35, 0.6, 0.5, 0.3])
    assert moved[1].tolist() == pytest.approx([0.35, 0.35, 0.35, 0.525, 0.55, 0.3])
    stage.chosen.fill_(True)
    assert torch.equal(stage.list_taught(), stage.taught)


def test_the_record_of_the_warm_up_is_of_the_labels_as_given() -> None:
    """Samples are chosen after each of its epochs, but all labels are still taught."""
    stage = make_stage(begin=2)
    for epoch in (1, 2):
        stage.thresholds.fill_(0.9)  # so that nearly all would be left out
        assert torch.equal(stage.list_taught(), LABELS)
        pass_epoch(stage, make_feed(epoch))
        assert not torch.equal(stage.taught, LABELS)
    assert torch.equal(stage.list_taught(), stage.taught)


def test_what_was_taught_stays_as_it_was() -> None:
    """The history compares predictions of an epoch with the labels of that epoch."""
    stage = make_stage(begin=1)
    before, kept = stage.taught.clone(), stage.list_taught()
    stage.thresholds.fill_(0.9)
    pass_epoch(stage, make_feed(2))
    assert not torch.equal(stage.taught, before)
    assert torch.equal(kept, before)


def test_thresholds_judge_before_they_move() -> None:
    """By the old one 0.35 is clean; by the new one, 0.4, it would not be."""
    stage = make_stage(momentum=0.0)
    stage.thresholds.fill_(0.3)
    sure = predict([0.35, 0.4, 0.25])
    stage.select(slice(0, 1), sure, sure, torch.ones(1, dtype=torch.bool))
    assert bool(stage.clean[0])
    assert stage.thresholds[:, 0].tolist() == pytest.approx([0.4, 0.4])
    stage.select(slice(0, 1), sure, sure, torch.ones(1, dtype=torch.bool))
    assert not bool(stage.clean[0])


def test_the_purest_need_no_more_than_all_but_certainty() -> None:
    stage = make_stage()
    stage.thresholds.fill_(0.7)  # 0.7 + 0.5 is out of reach
    sure = predict([0.004, 0.992, 0.004])
    stage.select(slice(0, 1), sure, sure, torch.ones(1, dtype=torch.bool))
    assert int(stage.taught[0]) == 1


def test_after_twenty_epochs_labels_are_replaced_from_0_645691_on() -> None:
    stage = make_stage()
    stage.thresholds.fill_(0.145691)
    for confidence, wanted in ((0.6456, -1), (0.6458, 1)):
        sure = predict([0.1, confidence, 0.9 - confidence])
        stage.select(slice(0, 1), sure, sure, torch.zeros(1, dtype=torch.bool))
        stage.thresholds[:, 0] = 0.145691
        stage.select(slice(0, 1), sure, sure, torch.ones(1, dtype=torch.bool))
        assert int(stage.taught[0]) == wanted


def test_the_warm_up_believes_all_labels() -> None:
    stage, feed = make_stage(begin=1), make_feed(1)
    x, s, i = next(iter(make_feed(1)(strong=1)))
    logits = stage.net(torch.cat([x, s]))
    wanted = [functional.cross_entropy(one, LABELS[i]).item() for one in logits.chunk(2)]
    (terms,) = pass_epoch(stage, feed)
    assert [terms["weak"], terms["strong"]] == pytest.approx(wanted)
    assert bool(stage.clean.any())  # samples are chosen after the warm-up's epochs, too


def test_terms_of_an_epoch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(begin=1, hard_weight=0.3)
    monkeypatch.setattr("drpl.training.losses.draw_weight", lambda alpha, rng: 1.0)
    stage.clean.copy_(torch.arange(24) < 8)
    stage.hard.copy_((torch.arange(24) >= 8) & (torch.arange(24) < 12))
    stage.taught[16:] = -1
    stage.taught[12:16] = 0  # purified
    clean, hard, taught = stage.clean.clone(), stage.hard.clone(), stage.taught.clone()
    x, s, i = next(iter(make_feed(2)(strong=1)))
    with torch.no_grad():
        views = [stage.net(view).log_softmax(1) for view in (x, s)]
    losses = [functional.nll_loss(view, LABELS[i], reduction="none") for view in views]
    (terms,) = pass_epoch(stage, make_feed(2))
    wanted = sum((8 / 24) * loss[clean[i]].mean() for loss in losses)
    assert terms["clean"] == pytest.approx(float(wanted), rel=1e-5)
    robust = sum((1 - (-loss[hard[i]]).exp() ** 0.7).mean() / 0.7 for loss in losses)
    assert terms["hard"] == pytest.approx(0.3 * 4 / 24 * float(robust), rel=1e-5)
    chosen = taught[i] >= 0
    for name, view in zip(("mixed weak", "mixed strong"), views, strict=True):
        wanted = functional.nll_loss(view[chosen], taught[i][chosen])
        assert terms[name] == pytest.approx(float(wanted), rel=1e-5)


def test_a_batch_of_which_nobody_is_chosen_teaches_nothing() -> None:
    stage = make_stage(begin=1)
    stage.taught.fill_(-1)
    (terms,) = pass_epoch(stage, make_feed(2))
    assert terms == {"clean": 0, "hard": 0}
    assert all(float(p.grad.abs().sum()) == 0 for p in stage.parameters() if p.grad is not None)


def test_gradients_are_those_of_finite_differences() -> None:
    stage = make_stage()
    stage.clean.copy_(torch.arange(24) % 2 == 0)
    stage.hard.copy_(torch.arange(24) % 2 == 1)
    weak, strong = (
        torch.randn(6, 3, generator=rng(k), dtype=torch.float64).requires_grad_() for k in (1, 2)
    )

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return torch.stack(list(stage.weigh(a, b, torch.arange(6)).values())).sum()

    assert gradcheck(loss, (weak, strong))


def test_two_processes_see_their_own_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_stage()
    pass_epoch(whole, make_feed(2, 12))
    first = torch.full((2, 24), 1 / 24)
    one, two = pass_halves(make_stage, monkeypatch)
    moved = [part.thresholds - first for part in (one, two)]
    torch.testing.assert_close(whole.thresholds - first, moved[0] + moved[1], atol=1e-6, rtol=0)
    assert bool(((moved[0] != 0) ^ (moved[1] != 0)).all())


def test_batch_norm_of_one_chosen_sample_is_avoided() -> None:
    stage = make_stage(begin=1)
    stage.net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    stage.taught.fill_(-1)
    stage.taught[3] = 0
    (terms,) = pass_epoch(stage, make_feed(2))
    assert set(terms) == {"clean", "hard"}


def test_presets_follow_the_released_code() -> None:
    c = read_preset(disc.Config, "disc", "cifar10")
    assert (c.begin, c.momentum, c.hard_weight, c.q, c.alpha) == (20, 0.99, 1, 0.7, 5)
    assert (c.schedule.epochs, c.schedule.momentum, c.schedule.weight_decay) == (200, 0, 1e-3)
    assert [c.schedule.lr_at(e) for e in (80, 81, 160, 161)] == [0.1, 0.01, 0.01, 0.001]
    web = read_preset(disc.Config, "disc", "webvision")
    assert (web.begin, web.schedule.epochs, web.schedule.batch_size) == (15, 100, 32)
    assert [web.schedule.lr_at(e) for e in (60, 61, 80, 81)] == [0.1, 0.01, 0.01, 0.001]
