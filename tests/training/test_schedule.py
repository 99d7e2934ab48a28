"""Rates: by epochs, or in one cycle over the steps."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from drpl.training.schedule import Schedule
from tests.training.test_loop import Toy, run


def cycle(epochs: int, *rates: tuple[int, float]) -> Schedule:
    return Schedule(epochs=epochs, lr=rates or ((1, 0.4),), cycle=True, batch_size=10, momentum=0)


def test_a_cycle_rises_for_a_quarter_and_falls_to_nothing() -> None:
    schedule = cycle(8)
    assert schedule.lr_at(1) == pytest.approx(0.04)  # a tenth of the highest
    assert schedule.lr_at(2) == pytest.approx(0.22)
    assert schedule.lr_at(3) == pytest.approx(0.4)
    assert schedule.lr_at(6) == pytest.approx(0.2)
    assert schedule.lr_at(8, 1.0) == pytest.approx(0)
    places = [(epoch, part / 4) for epoch in range(1, 9) for part in range(4)]
    rates = [schedule.lr_at(*place) for place in places]
    assert rates[:9] == sorted(rates[:9])
    assert rates[8:] == sorted(rates[8:], reverse=True)
    assert min(rates) > 0


def test_the_highest_rate_of_a_list_is_that_of_the_cycle() -> None:
    assert cycle(8, (1, 0.1), (5, 0.4), (7, 0.01)).lr_at(3) == pytest.approx(0.4)


def test_without_a_cycle_an_epoch_has_one_rate() -> None:
    schedule = Schedule(epochs=4, lr=((1, 0.1), (3, 0.01)))
    assert [schedule.lr_at(epoch, 0.9) for epoch in (1, 2, 3, 4)] == [0.1, 0.1, 0.01, 0.01]


def test_every_step_of_a_cycle_has_its_own_rate() -> None:
    """Two steps an epoch, each of which moves the weight by the rate."""
    schedule, stage = cycle(4), Toy()
    epochs = run(stage, schedule)
    moved = [-b + a for a, b in zip([0.0, *stage.seen], stage.seen, strict=False)]
    expected = [schedule.lr_at(epoch, half) for epoch in (1, 2, 3, 4) for half in (0, 0.5)]
    assert moved == pytest.approx(expected, rel=1e-3)
    assert [epoch.lr for epoch in epochs] == [schedule.lr_at(k) for k in (1, 2, 3, 4)]


def test_a_cycle_goes_on_where_it_was_stopped() -> None:
    whole, rest = Toy(), Toy()
    run(whole, cycle(4))
    run(rest, cycle(4), done=2)
    moved = [b - a for a, b in zip(whole.seen[3:], whole.seen[4:], strict=False)]
    assert [b - a for a, b in zip([0.0, *rest.seen], rest.seen, strict=False)] == pytest.approx(
        moved, rel=1e-3
    )


def test_nesterov_is_the_optimisers_and_wants_momentum() -> None:
    weight = nn.Parameter(torch.zeros(1))
    made = Schedule(epochs=1, lr=((1, 0.1),), nesterov=True).make_optimizer([weight])
    assert made.defaults["nesterov"]
    assert not Schedule(epochs=1, lr=((1, 0.1),)).make_optimizer([weight]).defaults["nesterov"]
    with pytest.raises(ValidationError, match="nesterov wants a momentum above 0"):
        Schedule(epochs=1, lr=((1, 0.1),), nesterov=True, momentum=0)
