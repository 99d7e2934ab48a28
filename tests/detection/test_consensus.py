"""Neighbours that vote, and the noise that their labels tell of."""

import pytest
import torch

from drpl.detection import consensus, detectors
from drpl.detection.evidence import Evidence
from drpl.detection.neighbours import find_nearest
from drpl.errors import RunError
from drpl.randomness import rng

T = torch.tensor([[0.8, 0.1, 0.1], [0.0, 0.7, 0.3], [0.2, 0.2, 0.6]])
PRIOR = torch.tensor([0.5, 0.3, 0.2])


def test_votes_by_hand() -> None:
    distances = torch.tensor([[0.1, 0.2, 0.3]] + [[0.5, 0.5, 0.5]] * 3)
    near = torch.tensor([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    votes = consensus.weigh_votes(distances, near, torch.tensor([0, 1, 1, 0]), 3)
    assert votes[0].tolist() == pytest.approx([0.707107, 0.707107, 0], abs=1e-6)
    assert -(votes[0, 0] + consensus.TINY).log().item() == pytest.approx(0.346574, abs=1e-6)
    assert votes[1].tolist() == pytest.approx([0.5**0.5, 0.5**0.5, 0])  # all from 0.5, itself too


def test_soft_labels_ask_twice() -> None:
    """Four of one corner; one of them with another label, which only its neighbours outvote."""
    vectors = torch.cat([torch.eye(2).repeat_interleave(20, 0)])
    vectors += 0.05 * torch.randn(40, 2, generator=rng("v"))
    labels = torch.arange(2).repeat_interleave(20)
    labels[[0, 5, 25]] = 1 - labels[[0, 5, 25]]
    soft = consensus.share_soft_labels(vectors, labels, 2)
    assert torch.equal(soft.argmax(1), torch.arange(2).repeat_interleave(20))
    # The majorities are all right, so the shares are whole although some labels are wrong.
    assert torch.equal(soft.amax(1), torch.ones(40))
    apart = consensus.measure_disagreement(soft, labels)
    assert apart[[0, 1]].tolist() == pytest.approx([4.605170, 0.010050], abs=1e-6)


def test_as_many_neighbours_as_half_a_class() -> None:
    assert consensus.choose_count(250, 50_000, 10) == 250
    assert consensus.choose_count(250, 50_000, 100) == 250
    assert consensus.choose_count(250, 72, 3) == 12
    assert consensus.choose_count(9, 5, 5) == 2


def test_expected_frequencies_by_hand() -> None:
    first, second, third = consensus.expect_consensus(T, PRIOR)
    assert first.tolist() == pytest.approx((PRIOR @ T).tolist())
    assert second[0, 2].item() == pytest.approx(0.5 * 0.8 * 0.1 + 0.2 * 0.2 * 0.6)
    assert third[1, 2, 1].item() == pytest.approx(
        0.5 * 0.1**3 + 0.3 * 0.7 * 0.3 * 0.7 + 0.2 * 0.2 * 0.6 * 0.2
    )
    assert [float(table.sum()) for table in (first, second, third)] == pytest.approx([1, 1, 1])


def test_the_transition_is_found_again() -> None:
    found, prior = consensus.fit_transition(*consensus.expect_consensus(T, PRIOR))
    assert torch.allclose(found, T, atol=0.02)
    assert torch.allclose(prior, PRIOR, atol=0.02)


def test_the_best_step_is_kept_and_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rates this high the last step is one of the worst."""
    counted = consensus.expect_consensus(T, PRIOR)
    monkeypatch.setattr(consensus, "RATE", 3.0)

    def miss(steps: int) -> float:
        monkeypatch.setattr(consensus, "STEPS", steps)
        expected = consensus.expect_consensus(*consensus.fit_transition(*counted))
        pairs = zip(counted, expected, strict=True)
        return sum(float((one - other).norm()) for one, other in pairs)

    misses = [miss(steps) for steps in range(7, 60, 4)]
    assert misses == sorted(misses, reverse=True)


def test_the_share_of_wrong_labels_of_each_class() -> None:
    draws = rng("hoc test")
    truth = torch.arange(3000) % 3
    wrong = torch.rand(3000, generator=draws) < torch.tensor([0.0, 0.2, 0.4])[truth]
    labels = torch.where(wrong, (truth + 1) % 3, truth)
    near = torch.stack([(torch.arange(3000) + 3 * k) % 3000 for k in (1, 2)], 1)
    shares = consensus.estimate_wrong_shares(labels, near, 3)
    for c in range(3):
        assert float(shares[c]) == pytest.approx(
            float(wrong[labels == c].double().mean()), abs=0.06
        )


def test_no_class_is_all_right_or_all_wrong() -> None:
    labels = torch.arange(300) % 3
    near = torch.stack([(torch.arange(300) + 3 * k) % 300 for k in (1, 2)], 1)
    shares = consensus.estimate_wrong_shares(labels, near, 3)
    assert bool((shares > 0).all())
    assert bool((shares <= 0.06).all())


def test_too_many_classes_for_triples() -> None:
    with pytest.raises(RunError, match="the noise of 201 classes is not estimated"):
        consensus.count_consensus(torch.zeros(9, dtype=torch.int64), torch.zeros(9, 2).long(), 201)


def test_what_was_found_is_found_once_and_never_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stages of a run, and runs on the same features, share them; scores are the same."""
    asked: list[int] = []

    def count_calls(unit: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(count)
        return find_nearest(unit, count)

    monkeypatch.setattr(consensus, "find_nearest", count_calls)
    draws = rng("remembered")
    probs = torch.rand(60, 3, generator=draws).softmax(1)
    labels = torch.arange(60) % 3
    first, second = torch.randn(2, 60, 4, generator=draws)
    names = ("simifeat_vote", "simifeat_rank", "neighbour_agreement")

    def score_all(vectors: torch.Tensor, given: torch.Tensor) -> list[torch.Tensor]:
        losses = torch.zeros(1, 60)
        evidence = Evidence("s", losses, losses, probs, vectors=vectors.clone())
        return [getattr(detectors, name)(evidence, given) for name in names]

    found = [score_all(first, labels) for _ in range(2)]
    assert len(asked) == 2  # voters and those around
    assert all(map(torch.equal, *found))
    moved = score_all(first, labels.roll(1))
    assert len(asked) == 2
    others = score_all(second, labels)
    assert len(asked) == 4
    whole, *rest = (torch.cat(scores) for scores in (found[0], moved, others))
    assert not any(torch.equal(whole, other) for other in rest)
