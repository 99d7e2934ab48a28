from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from drpl.cleaning import judge
from drpl.cleaning.judge import Judgement, merge, weigh_losses
from drpl.randomness import rng
from drpl.training.losses import one_hot


def judged(
    noise: float, error: float, *, samples: int = 3000, classes: int = 5, seed: int = 1
) -> tuple[Judgement, Tensor]:
    """Three networks that err independently on samples of which a share has a wrong label."""
    draws = rng("judged", seed)
    true = torch.randint(classes, (samples,), generator=draws)

    def moved(labels: Tensor, share: float) -> Tensor:
        steps = torch.randint(1, classes, (samples,), generator=draws)
        return (labels + steps * (torch.rand(samples, generator=draws) < share)) % classes

    given = moved(true, noise)
    votes = torch.stack([moved(true, error) for _ in range(3)])
    probs = torch.stack([one_hot(vote, classes) for vote in votes]).mean(0)
    probs += 0.2 * torch.rand(samples, classes, generator=draws)
    probs /= probs.sum(1, keepdim=True)
    features = normalize(
        one_hot(true, classes) + 0.1 * torch.randn(samples, classes, generator=draws)
    )
    losses = ((votes != given).float().mean(0) * 0.5 + 0.1).double()
    return Judgement(given, votes, probs[None], features, losses, probs.log()), true


def test_issues_are_what_is_more_probably_wrong_than_right() -> None:
    run, true = judged(0.3, 0.1)
    assert torch.equal(run.issues, run.p_noisy > 0.5)
    wrong = true != run.given
    assert float(wrong[run.issues].double().mean()) > 0.95
    assert float(run.issues[wrong].double().mean()) > 0.9
    confidence, label = run.best
    assert bool((label != run.given).all())
    assert float((label == true)[run.issues].double().mean()) > 0.95
    assert float(confidence.max()) <= 1


def test_outliers_are_not_called_mislabelled() -> None:
    run, _ = judged(0.3, 0.0, samples=600)
    strange = torch.arange(600) % 20 == 0
    features, probs, votes = run.features.clone(), run.probs.clone(), run.votes.clone()
    features[strange] = normalize(torch.ones(5), dim=0)
    probs[strange] = 0.2
    run = Judgement(run.given, votes, probs[None], features, run.losses, run.scores)
    verdicts = np.array(run.verdicts)
    assert (verdicts[(run.issues & strange).numpy()] == "outside").all()
    assert (verdicts[(run.issues & ~strange).numpy()] == "mislabelled").mean() > 0.9
    assert not run.truth[1][run.issues & strange].any()


def test_networks_that_differ_make_an_image_ambiguous() -> None:
    run, _ = judged(0.3, 0.0, samples=300)
    one = int(run.issues.nonzero()[0])
    votes = run.votes.clone()
    votes[0, one] = next(c for c in range(5) if c not in (int(run.given[one]), int(votes[1, one])))
    run = Judgement(run.given, votes, run.probs[None], run.features, run.losses, run.scores)
    assert bool(run.issues[one])
    assert run.verdicts[one] == "ambiguous"


def test_neighbours_are_trusted_samples_of_the_class_nearest_first() -> None:
    run, true = judged(0.3, 0.0, samples=400)
    index = run.issues.nonzero().flatten()
    labels = run.best[1][index]
    for i, label, ids in zip(
        index.tolist(), labels.tolist(), run.find_near(index, labels), strict=True
    ):
        chosen = [int(text) for text in ids.split()]
        assert i not in chosen
        pool = (run.trusted & (run.given == label)).nonzero().flatten()
        near = run.features[pool] @ run.features[i]
        assert chosen == pool[near.topk(4).indices].tolist()
        assert (true[chosen] == label).all()


def test_many_samples_are_compared_with_some_of_each_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class lies in a direction of its own, the rarest one too; rows are few at a time."""
    given = torch.tensor([0] * 300 + [1] * 300 + [2] * 12)
    probs = torch.eye(3)[given] * 0.9 + 0.05
    features = normalize(torch.eye(3)[given] + 0.1 * torch.rand(612, 3, generator=rng("lie")))
    run = Judgement(given, probs.argmax(1)[None], probs[None], features, given * 0.0, probs.log())
    every, near = run.outlier_score, run.find_near(torch.arange(612), given)
    rows = list[int]()
    topk = Tensor.topk

    def watched(table: Tensor, count: int) -> object:
        rows.append(table.numel())
        return topk(table, count)

    monkeypatch.setattr(judge, "MOST", 60)
    monkeypatch.setattr(judge, "CELLS", 6000)
    monkeypatch.setattr(judge, "CHUNK", 100)
    monkeypatch.setattr(Tensor, "topk", watched)
    again = replace(run)
    some = again.outlier_score
    assert again.find_near(torch.arange(612), given) == near
    assert max(rows) <= 6000
    assert not torch.equal(some, every)
    assert not again.outside.any()


def test_no_sample_is_its_own_neighbour_in_a_small_class() -> None:
    """Where fewer others are trusted than are named, the list is shorter."""
    given = torch.tensor([0] * 3 + [1] * 30)
    probs = torch.eye(2)[given] * 0.9 + 0.05
    features = torch.nn.functional.normalize(torch.randn(33, 4, generator=rng("near")))
    stages = probs[None].expand(3, -1, -1)
    run = Judgement(given, stages.argmax(2), stages, features, torch.zeros(33), probs.log())
    first = torch.tensor([0, 1, 2])
    assert bool(run.trusted[first].all())
    for i, ids in enumerate(run.find_near(first, given[first])):
        assert sorted(map(int, ids.split())) == [k for k in range(3) if k != i]


def test_probabilities_are_moved_to_the_rate_in_the_order_of_the_evidence() -> None:
    run, _ = judged(0.3, 0.1)
    moved = run.scale_posterior(0.25)
    assert float(moved.mean()) == pytest.approx(0.25, abs=1e-6)
    assert bool((moved[run.order].diff() >= 0).all())
    assert bool((run.scale_posterior(0.1) <= moved).all())
    assert float(run.scale_posterior(0.0).mean()) == pytest.approx(1e-4, rel=0.01)


def test_the_order_follows_losses_and_posterior() -> None:
    run, true = judged(0.3, 0.1)
    sorted_wrong = (true != run.given)[run.order].double()
    assert float(sorted_wrong[-800:].mean()) > 0.95
    assert float(sorted_wrong[:1500].mean()) < 0.05


def test_seeds_are_averaged_and_what_was_left_out_decides() -> None:
    one, true = judged(0.3, 0.1)
    other, _ = judged(0.3, 0.1)
    scores = one_hot(true, 5) + 0.01
    both = merge([one, other], scores)
    torch.testing.assert_close(both.losses, (one.losses + other.losses) / 2)
    assert both.scores is scores
    assert both.rate.low <= float((true != one.given).double().mean()) <= both.rate.high
    torch.testing.assert_close(merge([one]).scores, one.probs.log())


def test_a_class_that_everyone_contradicts_still_has_trusted_samples() -> None:
    run, _ = judged(0.0, 0.0, samples=200)
    votes = run.votes.clone()
    votes[:, run.given == 2] = 3
    run = Judgement(run.given, votes, run.probs[None], run.features, run.losses, run.scores)
    assert bool((run.trusted & (run.given == 2)).any())
    assert torch.isfinite(run.outlier_score).all()


def test_networks_that_learnt_nothing_still_give_an_answer() -> None:
    run, _ = judged(0.0, 0.0, samples=200)
    votes = (run.given + torch.tensor([[1], [2], [3]])) % 5  # every label is contradicted
    probs = one_hot(votes[0], 5) * 0.5 + 0.1
    run = Judgement(run.given, votes, probs[None], run.features, run.losses, probs.log())
    assert torch.isfinite(run.outlier_score).all()
    assert run.rate.high > 0.97
    assert torch.isfinite(run.p_noisy).all()


def test_losses_count_more_where_classes_have_many_samples() -> None:
    weights = [weigh_losses(samples, 10) for samples in (100, 1000, 7000, 20_000, 10**7)]
    assert weights == sorted(weights)
    assert weights[0] < 0.001
    assert weights[2] == pytest.approx(1)
    assert weights[-1] == pytest.approx(2, abs=1e-3)


def test_the_list_is_ordered_by_both_judges() -> None:
    draws = torch.Generator().manual_seed(2)
    given = torch.randint(3, (300,), generator=draws)
    stages = torch.rand(2, 300, 3, generator=draws).softmax(2)
    losses, scores = torch.rand(300, generator=draws), torch.randn(300, 3, generator=draws)
    run = Judgement(given, stages.argmax(2), stages, torch.eye(300), losses, scores)
    by_loss, by_posterior = losses.argsort(), run.noise.posterior.argsort(stable=True)
    assert torch.equal(replace(run, weight=1e9).order, by_loss)
    assert torch.equal(replace(run, weight=0.0).order, by_posterior)
    assert merge([run]).weight == 2  # networks alone
    assert merge([run], scores).weight == weigh_losses(300, 3)
