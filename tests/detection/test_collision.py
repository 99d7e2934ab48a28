"""Collision entropy: clean, of another class, of none."""

from math import log

import pytest
import torch

from drpl.detection.collision import collision_entropy, tell_kinds
from drpl.randomness import rng


@pytest.mark.parametrize(
    ("probs", "label", "expected"),
    [
        ([0.0, 1.0, 0.0], 1, 0),
        ([0.9, 0.05, 0.05], 0, 0.101203),
        ([0.9, 0.05, 0.05], 1, 0.736577),
        ([0.0, 1.0, 0.0], 0, 0.693147),
        ([1 / 100] * 100, 3, 1.356736),
        ([1 / 10] * 10, 3, 1.123930),
        ([1 / 3] * 3, 1, 0.693147),
    ],
)
def test_entropies_by_hand(probs: list[float], label: int, expected: float) -> None:
    found = collision_entropy(torch.tensor([probs]), torch.tensor([label]))
    assert found.item() == pytest.approx(expected, abs=1e-6)


def entropies() -> torch.Tensor:
    """60 clean, 40 of another class, 30 of none."""
    draws = rng("entropies")
    clean = 0.3 * torch.rand(60, generator=draws).double()
    other = log(2) + 0.03 + 0.05 * torch.rand(40, generator=draws).double()
    outside = 1.1 + 0.1 * torch.rand(30, generator=draws).double()
    return torch.cat([clean, other, outside])


def test_kinds_of_noise_are_told_apart() -> None:
    other, outside = tell_kinds(entropies())
    assert torch.equal(other[:60], torch.zeros(60).double())
    assert torch.equal(outside[:60], torch.zeros(60).double())
    assert float(other[60:100].min()) > 0.9
    assert float(outside[60:100].max()) < 0.1
    assert float(outside[100:].min()) > 0.9
    assert float(other[100:].max()) < 0.1


def test_without_noise_nothing_is_told() -> None:
    for few in (entropies()[:60], entropies()[:62], torch.full((20,), log(2)).double()):
        other, outside = tell_kinds(few)
        assert float(other.sum() + outside.sum()) == 0
