import pytest
import torch

from drpl.cleaning.estimate import estimate_rate, estimate_truth
from drpl.noise.transition import transition_matrix
from tests.cleaning.test_judge import judged


@pytest.mark.parametrize("noise", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("error", [0.0, 0.05, 0.15])
def test_the_noise_rate_is_found_though_networks_err(noise: float, error: float) -> None:
    hits = 0
    for seed in range(5):
        run, true = judged(noise, error, seed=seed)
        real = float((true != run.given).double().mean())
        rate = estimate_rate([run], seed)
        assert rate.low <= rate.value <= rate.high
        assert rate.value == pytest.approx(real, abs=0.03)
        hits += rate.low <= real <= rate.high
    assert hits >= 4


def test_more_runs_widen_the_interval_by_what_they_differ() -> None:
    first, _ = judged(0.3, 0.0)
    other, _ = judged(0.4, 0.0)
    alone, both = estimate_rate([first], 1), estimate_rate([first, other], 1)
    assert both.high - both.low > alone.high - alone.low + 0.05
    assert both.value == pytest.approx((0.3 + 0.4) / 2, abs=0.02)
    assert estimate_rate([first], 1) == alone


def test_the_noise_matrix_follows_from_the_estimated_truth() -> None:
    run, right = judged(0.4, 0.0)
    labels, inside = estimate_truth(run)
    estimated = transition_matrix(labels[inside], run.given[inside], 5)
    real = transition_matrix(right, run.given, 5)
    torch.testing.assert_close(estimated, real, atol=0.02, rtol=0)
