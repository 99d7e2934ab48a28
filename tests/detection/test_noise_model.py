import pytest
import torch
from torch import Tensor

from drpl.detection.noise_model import NoiseModel, rank_doubt


def make_labels(rate: float, *, samples: int = 8000, classes: int = 6) -> tuple[Tensor, ...]:
    """Scores whose softmax at temperature 4 is the truth, and labels a share of which is wrong."""
    draws = torch.Generator().manual_seed(3)
    scores = torch.randn(samples, classes, generator=draws)
    true = torch.multinomial((4 * scores).softmax(1), 1, generator=draws).squeeze(1)
    step = torch.randint(1, classes, (samples,), generator=draws)
    wrong = torch.rand(samples, generator=draws) < rate
    return scores, torch.where(wrong, (true + step) % classes, true), wrong


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4])
def test_the_rate_and_the_temperature_are_found(rate: float) -> None:
    scores, labels, wrong = make_labels(rate)
    model = NoiseModel.fit(scores, labels)
    assert model.rate == pytest.approx(rate, abs=0.015)
    assert model.temperature == pytest.approx(4, rel=0.1)
    assert float(model.posterior.mean()) == pytest.approx(float(wrong.double().mean()), abs=0.02)


def test_the_posterior_means_what_it_says() -> None:
    scores, labels, wrong = make_labels(0.2)
    posterior = NoiseModel.fit(scores, labels).posterior
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        mine = (posterior >= low) & (posterior < low + 0.2)
        share = float(wrong[mine].double().mean())
        assert share == pytest.approx(float(posterior[mine].mean()), abs=0.07)


def test_scores_in_other_units_change_nothing() -> None:
    scores, labels, _ = make_labels(0.2)
    one, other = (NoiseModel.fit(scale * scores, labels) for scale in (1, 1000))
    torch.testing.assert_close(one.posterior, other.posterior, atol=1e-3, rtol=0)


def test_doubt_is_ranked_by_the_lead_of_the_first_class() -> None:
    scores = torch.tensor([[0.5, 0.4, 0.1], [0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    assert rank_doubt(scores).tolist() == [1, 0, 0.5]


def test_the_same_model_judges_other_labels() -> None:
    scores, labels, _ = make_labels(0.2)
    model = NoiseModel.fit(scores, labels)
    best, worst = scores.argmax(1), scores.argmin(1)
    assert bool((model.of(scores, worst).posterior >= model.of(scores, best).posterior).all())
