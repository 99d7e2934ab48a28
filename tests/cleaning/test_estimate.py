from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drpl.cleaning.estimate import estimate_by_class, estimate_rate
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


def test_wrong_labels_of_the_surest_samples_are_all_that_there_are() -> None:
    """As where one folder of images that are easy to tell has another's name."""
    draws, labels = torch.Generator().manual_seed(1), torch.arange(2000) % 3
    sure = torch.arange(2000) < 400
    wrong = sure & (torch.rand(2000, generator=draws) < 0.9)
    scores = 0.1 * torch.randn(2000, 3, generator=draws)
    seen = torch.where(wrong, (labels + 1) % 3, labels)
    scores += torch.where(sure, 8.0, 3.0)[:, None] * torch.eye(3)[seen]
    found = estimate_rate(NoiseModel.fit(scores, labels))
    assert found.low == found.value == found.high
    assert found.value == pytest.approx(float(wrong.double().mean()), abs=0.03)


def draw_classes(
    rates: list[float], spreads: list[float], seed: int, samples: int, into: int | None = None
) -> tuple[NoiseModel, Tensor]:
    """Leave-one-out predictions for classes that are wrong at a rate, and hard to tell, each.

    Wrong labels are any other class, or the class `into`.
    """
    draws = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (samples,), generator=draws)
    x = torch.randn(samples, CLASSES, generator=draws) * torch.tensor(spreads)[true, None]
    x += 4 * torch.eye(CLASSES)[true]
    wrong = torch.rand(samples, generator=draws) < torch.tensor(rates)[true]
    step = torch.randint(1, CLASSES, (samples,), generator=draws)
    other = (true + step) % CLASSES if into is None else torch.full_like(true, into)
    labels = torch.where(wrong, other, true)
    scores = predict_left_out(lambda index: x[index] - x.mean(0), labels, CLASSES).scores
    return NoiseModel.fit(scores, labels), wrong


@pytest.mark.parametrize("samples", [400, 2000])
@pytest.mark.parametrize(
    ("rates", "spreads"),
    [
        ([0.2] * 5, [1.0] * 5),
        ([0.0, 0.0, 0.0, 0.0, 0.4], [1.0] * 5),
        ([0.1] * 5, [1.0, 1.0, 1.0, 1.0, 4.0]),  # the surest of the last are of others
    ],
)
def test_every_class_has_a_rate_that_holds(
    rates: list[float], spreads: list[float], samples: int
) -> None:
    hits = 0
    for seed in range(4):
        model, wrong = draw_classes(rates, spreads, seed, samples)
        found = estimate_by_class(model, model.posterior, 20)
        assert len(found) == CLASSES
        for label, rate in found.items():
            real = float(wrong[model.labels == label].double().mean())
            assert rate.low <= rate.value <= rate.high < 1
            hits += rate.low <= real <= rate.high
    assert hits >= 19  # of 20


def test_the_rate_of_a_bad_class_is_its_own() -> None:
    model, wrong = draw_classes([0.0, 0.1, 0.1, 0.1, 0.1], [1.0] * 5, 1, samples=4000, into=0)
    found = estimate_by_class(model, model.posterior, 20)
    first, *others = (found[label] for label in range(CLASSES))
    real = float(wrong[model.labels == 0].double().mean())
    assert 0.02 < first.low < real < first.high < real + 0.1
    assert abs(first.value - real) < 0.05
    assert all(rate.low == 0 and rate.high < 0.05 for rate in others)
    assert set(estimate_by_class(model, model.posterior, 700)) < set(range(CLASSES))


def test_a_class_that_is_named_without_a_reason_has_no_rate() -> None:
    """Predictions know the first two classes, and guess between the others."""
    draws = torch.Generator().manual_seed(1)
    labels = torch.randint(4, (2000,), generator=draws)
    scores = torch.randn(2000, 4, generator=draws)
    scores[labels < 2] += 8 * torch.eye(4)[labels[labels < 2]]
    scores[labels >= 2, 2] += 20  # always the third
    found = estimate_by_class(NoiseModel.fit(scores, labels), torch.zeros(2000), 20)
    assert found[0].high < 0.05
    assert (found[3].low, found[3].high) == (0, 1)


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


@pytest.mark.parametrize("seed", range(4))
def test_a_rare_class_that_looks_like_a_large_one_is_not_called_wrong(seed: int) -> None:
    """The probabilities are exact and every label is right: 40 of 100 just look like the first."""
    draws, sizes = torch.Generator().manual_seed(seed), (2000, 4000, 4000, 100)
    labels = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    looks = labels.clone()
    looks[-40:] = 0
    centres = 6 * torch.eye(5)
    centres[2] = centres[1] + torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0])  # less sure than the others
    x = centres[torch.where(labels == 3, 3, looks)] + torch.randn(len(labels), 5, generator=draws)
    x[-40:] = centres[0] + torch.randn(40, 5, generator=draws)
    prior = torch.tensor(sizes).double() / len(labels)
    kernel = -((x[:, None] - centres[:4]) ** 2).sum(2).double() / 2
    likelihood = kernel.exp()
    likelihood[:, 3] = 0.6 * likelihood[:, 3] + 0.4 * likelihood[:, 0]
    scores = (likelihood * prior).clamp(min=1e-30).log()
    model = replace(NoiseModel.fit(scores, labels), temperature=1.0, rate=0.0)
    assert int((scores.argmax(1) != labels)[-100:].sum()) >= 38
    found = estimate_by_class(model, model.posterior, 20)
    assert found[3].low < 0.02
    assert all(found[label].low == 0 for label in range(3))
