from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from drpl.detection.mixture import BetaMixture
from drpl.errors import TrainingError

X = torch.tensor(
    [.02, .03, .05, .06, .08, .10, .12, .15, .20, .25,
     .55, .65, .70, .78, .82, .86, .90, .93, .95, .97],
    dtype=torch.float64,
)  # fmt: skip
AT = torch.tensor([0.25, 0.40, 0.55, 0.90], dtype=torch.float64)


def chain_losses() -> torch.Tensor:
    i = torch.arange(1000, dtype=torch.float64)
    low = 0.02 + 1.2 * ((i + 0.5) / 600) ** 3
    high = 2 + 3 * ((i - 599.5).clamp(min=0) / 400) ** 1.5
    return torch.where(i < 600, low, high)


def test_em_on_scaled_values() -> None:
    mixture = BetaMixture.fit_scaled(X)
    assert mixture.alpha == pytest.approx((0.50789248, 7.44816088), abs=5e-9)
    assert mixture.beta == pytest.approx((2.55247401, 1.46333196), abs=5e-9)
    assert mixture.weight == pytest.approx((0.56326246, 0.43673754), abs=5e-9)


def test_exact_and_looked_up_posterior() -> None:
    mixture = BetaMixture.fit_scaled(X)
    exact = [0.00178, 0.05603, 0.42538, 0.99147]
    looked_up = [0.001916, 0.060251, 0.445853, 0.992818]
    assert mixture.noisy(AT).tolist() == pytest.approx(exact, abs=5e-6)
    assert replace(mixture, lookup=True).noisy(AT).tolist() == pytest.approx(looked_up, abs=5e-7)


def test_whole_chain() -> None:
    losses = chain_losses()
    mixture = BetaMixture.fit(losses, lookup=True)
    assert mixture.scale is not None
    assert mixture.scale.lo == pytest.approx(0.0207134, abs=5e-8)
    assert mixture.scale.hi == pytest.approx(4.4507290, abs=5e-8)
    assert int(((losses >= mixture.scale.lo) & (losses <= mixture.scale.hi)).sum()) == 900
    assert mixture.alpha == pytest.approx((0.308528, 3.362150), abs=5e-7)
    assert mixture.beta == pytest.approx((1.729632, 1.570949), abs=5e-7)
    assert mixture.weight == pytest.approx((0.710203, 0.289797), abs=5e-7)
    noisy = mixture.noisy(losses)
    assert [int((noisy <= level).sum()) for level in (0.05, 0.1, 0.5)] == [533, 576, 642]
    assert not bool((noisy[600:] <= 0.05).any())
    assert not mixture.notes


def test_highest_losses_are_not_called_clean() -> None:
    """The noisy density falls again near 1; without the fix the worst losses would pass."""
    mixture = BetaMixture(alpha=(1.2, 8.0), beta=(3.0, 6.0), weight=(0.5, 0.5))
    x = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    raw = mixture.posterior(x)
    assert float(raw[-1]) < float(raw.max())
    assert bool((mixture.noisy(x).diff() >= 0).all())


def test_lowest_losses_are_not_called_noisy() -> None:
    mixture = BetaMixture(alpha=(3.0, 0.8), beta=(6.0, 1.0), weight=(0.5, 0.5))
    x = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    assert float(mixture.posterior(x)[0]) > float(mixture.posterior(x)[200])
    assert bool((mixture.noisy(x).diff() >= -1e-12).all())


@given(
    some.integers(30, 300),
    some.floats(0.05, 0.95),
    some.floats(0.3, 4.0),
    some.integers(0, 10**6),
)
def test_probabilities_rise_with_the_loss(count: int, rate: float, gap: float, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    noisy = torch.rand(count, generator=draws) < rate
    losses = torch.rand(count, generator=draws) + gap * noisy
    p = BetaMixture.fit(losses).noisy(losses)[losses.argsort()]
    assert bool(((p >= 0) & (p <= 1)).all())
    assert bool((p.diff() >= -1e-9).all())


def test_constant_losses_are_said_and_nothing_is_flagged() -> None:
    mixture = BetaMixture.fit(torch.full((100,), 0.7))
    assert "all the same" in mixture.notes[0]
    assert float(mixture.noisy(torch.tensor([0.1, 0.7, 5.0])).max()) == 0


def test_losses_of_one_mode_are_reported() -> None:
    losses = 2 + 0.1 * torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert "one mode" in BetaMixture.fit(losses).notes[0]


def test_a_one_sided_or_collapsed_mixture_is_said() -> None:
    lonely = BetaMixture((1, 2), (2, 1), (0.99, 0.01)).examine()
    assert "one-sided: only 1.0% of the losses are noisy" in lonely.notes[0]
    two_values = torch.cat([torch.zeros(600), torch.ones(400)])
    mixture = BetaMixture.fit(two_values)
    assert "collapsed" in mixture.notes[0]
    assert torch.equal(mixture.noisy(two_values) > 0.5, two_values > 0.5)


def test_the_noisy_component_is_the_higher_one() -> None:
    mixture = BetaMixture(alpha=(8, 2), beta=(2, 8), weight=(0.3, 0.7)).examine()
    assert mixture.weight == (0.7, 0.3)
    x = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    assert bool((mixture.noisy(x).diff() >= 0).all())


def test_losses_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(TrainingError, match="2 of 3 losses are not finite"):
        BetaMixture.fit(torch.tensor([0.1, float("nan"), float("inf")]))


def test_two_losses_are_no_mixture() -> None:
    assert BetaMixture.fit(torch.tensor([0.1, 0.9])).notes
