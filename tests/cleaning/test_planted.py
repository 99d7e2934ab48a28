import pytest
import torch

from drpl.cleaning.folder import VERDICTS
from drpl.cleaning.judge import Judgement
from drpl.cleaning.planted import plant
from drpl.detection.left_out import predict_left_out


def test_planted_recall_is_that_of_errors_of_the_same_kind() -> None:
    draws = torch.Generator().manual_seed(5)
    centres = 1.2 * torch.randn(4, 20, generator=draws)
    true = torch.randint(4, (3000,), generator=draws)
    x = centres[true] + 2 * torch.randn(3000, 20, generator=draws)
    wrong = torch.rand(3000, generator=draws) < 0.1
    given = torch.where(wrong, (true + 1) % 4, true)  # each class has one that looks alike
    x = x - x.mean(0)
    scores = predict_left_out(lambda index: x[index], given, 4).scores
    probs = (5 * scores).softmax(1)
    losses = -probs.gather(1, given[:, None]).squeeze(1).log().double()
    run = Judgement(given, probs.argmax(1)[None], probs[None], x, losses, scores)
    before = run.issues.clone()
    planted = plant(run, lambda index: x[index], seed=1)
    assert planted
    figures = planted.summarize(("a", "b", "c", "d"))
    real = float(run.issues[wrong].double().mean())
    assert figures["recall"] == pytest.approx(real, abs=0.1)
    assert 500 <= figures["planted"] <= 600  # few are flipped to what they were called already
    assert set(figures["verdicts"]) <= set(VERDICTS)
    assert bool((planted.found[planted.verdict == VERDICTS.index("mislabelled")]).any())
    assert bool((planted.true != planted.given).all())
    assert plant(run, lambda index: x[index], seed=1, most=0) is None
    assert torch.equal(run.issues, before)
    pairs = figures["pairs"]
    assert pairs[0]["given"] == "bcda"["abcd".index(pairs[0]["true"])]
    again, other = (plant(run, lambda index: x[index], seed=seed) for seed in (1, 2))
    assert again
    assert other
    assert torch.equal(again.given, planted.given)
    assert not torch.equal(other.true, planted.true)


def test_few_samples_are_not_planted_in() -> None:
    given = torch.arange(60) % 2
    x = (given[:, None] - 0.5) + 0.1 * torch.randn(
        60, 3, generator=torch.Generator().manual_seed(1)
    )
    scores = predict_left_out(lambda index: x[index], given, 2).scores
    probs = scores.softmax(1)
    run = Judgement(given, given[None], probs[None], x, torch.zeros(60), scores)
    assert plant(run, lambda index: x[index], seed=1) is None
