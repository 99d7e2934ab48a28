import pytest
import torch
from torch import Tensor

from drpl.cleaning.estimate import estimate_rate
from drpl.detection.left_out import predict_left_out
from drpl.detection.noise_model import NoiseModel

CLASSES = 5


def make_model(
    rate: float, growth: float, seed: int, samples: int = 6000
) -> tuple[NoiseModel, Tensor]:
    """Predictions of known sureness, and labels wrong at `rate`, from which it grows with doubt."""
    draws = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(samples, CLASSES, generator=draws)
    true = torch.multinomial(scores.softmax(1), 1, generator=draws).squeeze(1)
    first, second = scores.topk(2).values.unbind(1)
    doubt = (second - first).argsort().argsort() / samples
    wrong = torch.rand(samples, generator=draws) < rate + growth * doubt
    step = torch.randint(1, CLASSES, (samples,), generator=draws)
    labels = torch.where(wrong, (true + step) % CLASSES, true)
    return NoiseModel.fit(scores, labels), wrong


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05, 0.2, 0.4])
@pytest.mark.parametrize("growth", [0.0, 0.1, 0.4])
def test_the_interval_contains_the_rate(rate: float, growth: float) -> None:
    hits = 0
    for seed in range(6):
        model, wrong = make_model(rate, growth, seed)
        found, real = estimate_rate(model), float(wrong.double().mean())
        assert found.low <= found.value <= found.high
        if not growth:
            assert found.value == pytest.approx(real, abs=0.08)
        hits += found.low <= real <= found.high
    assert hits >= 5


def test_noise_that_grows_with_doubt_is_more_than_is_seen_where_all_is_sure() -> None:
    model, wrong = make_model(0.02, 0.2, 1, samples=20_000)
    found, real = estimate_rate(model), float(wrong.double().mean())
    assert found.low < 0.06 < found.value < real + 0.02


def test_the_rate_of_some_samples_is_theirs() -> None:
    model, wrong = make_model(0.1, 0.0, 2)
    worse = wrong.nonzero().flatten()[:300]
    others = (~wrong).nonzero().flatten()[:300]
    assert estimate_rate(model, torch.cat([worse, others])).value > 0.3
    assert estimate_rate(model, others).low == 0


@pytest.mark.parametrize("samples", [4, 30])
def test_few_samples_give_a_wide_interval(samples: int) -> None:
    model, _ = make_model(0.2, 0.0, 1, samples=samples)
    found = estimate_rate(model)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.high - found.low > 0.1


@pytest.mark.parametrize("classes", [2, 5])
def test_predictions_that_know_nothing_leave_the_rate_unknown(classes: int) -> None:
    draws = torch.Generator().manual_seed(1)
    labels = torch.randint(classes, (3000,), generator=draws)
    x = torch.randn(3000, 8, generator=draws)
    scores = predict_left_out(lambda index: x[index] - x.mean(0), labels, classes).scores
    found = estimate_rate(NoiseModel.fit(scores, labels))
    assert (found.value, found.low, found.high) == (0, 0, 1)


def test_few_samples_do_not_prove_that_none_is_wrong() -> None:
    few = [estimate_rate(make_model(0.0, 0.0, seed, samples=300)[0]).value for seed in range(6)]
    assert all(0.002 < value < 0.12 for value in few)
    many, _ = make_model(0.0, 0.0, 1, samples=20_000)
    assert estimate_rate(many).value < 0.01
