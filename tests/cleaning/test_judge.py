import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from drpl.cleaning.estimate import estimate_rate
from drpl.cleaning.judge import Judgement
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
    posterior = ((votes != given).float().mean(0) * 0.5 + 0.1).double()
    return Judgement(given, votes, probs[None], features, posterior, posterior), true


def test_issues_are_what_every_network_contradicts() -> None:
    run, true = judged(0.3, 0.1)
    against_all = (run.votes != run.given).all(0)
    assert torch.equal(run.issues, against_all)
    wrong = true != run.given
    assert float(wrong[run.issues].double().mean()) > 0.98
    confidence, label = run.best
    assert bool((label != run.given).all())
    assert float((label == true)[run.issues].double().mean()) > 0.95
    assert float(confidence.max()) <= 1


def test_outliers_are_not_called_mislabelled() -> None:
    run, true = judged(0.3, 0.0, samples=600)
    strange = torch.arange(600) % 20 == 0
    features, probs, votes = run.features.clone(), run.probs.clone(), run.votes.clone()
    features[strange] = normalize(torch.ones(5), dim=0)
    probs[strange] = 0.2
    run = Judgement(run.given, votes, probs[None], features, run.posterior, run.posterior)
    verdicts = np.array(run.verdicts)
    assert (verdicts[(run.issues & strange).numpy()] == "outside").all()
    assert (verdicts[(run.issues & ~strange).numpy()] == "mislabelled").mean() > 0.9
    # They count as wrong even where their label was not contradicted.
    plain = Judgement(run.given, votes, run.probs[None], features, run.posterior, run.posterior)
    assert estimate_rate([plain], 1).high > float((true != run.given).double().mean())


def test_networks_that_differ_make_an_image_ambiguous() -> None:
    run, _ = judged(0.3, 0.0, samples=300)
    one = int(run.issues.nonzero()[0])
    votes = run.votes.clone()
    votes[0, one] = next(c for c in range(5) if c not in (int(run.given[one]), int(votes[1, one])))
    run = Judgement(run.given, votes, run.probs[None], run.features, run.posterior, run.posterior)
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


def test_probabilities_are_moved_to_the_rate_in_their_order() -> None:
    run, _ = judged(0.3, 0.1)
    moved = run.rescale_posterior(0.25)
    assert float(moved.mean()) == pytest.approx(0.25, abs=1e-6)
    order = run.posterior.argsort(stable=True)
    assert bool((moved[order].diff() >= 0).all())
    assert float(run.rescale_posterior(0.0).mean()) == pytest.approx(1e-4, rel=0.01)


def test_a_class_that_everyone_contradicts_still_has_trusted_samples() -> None:
    run, _ = judged(0.0, 0.0, samples=200)
    votes = run.votes.clone()
    votes[:, run.given == 2] = 3
    run = Judgement(run.given, votes, run.probs[None], run.features, run.posterior, run.posterior)
    assert bool((run.trusted & (run.given == 2)).any())
    assert torch.isfinite(run.outlier_score).all()


def test_networks_that_learnt_nothing_still_give_an_answer() -> None:
    run, _ = judged(0.0, 0.0, samples=200)
    votes = (run.given + torch.tensor([[1], [2], [3]])) % 5  # every label is contradicted
    run = Judgement(run.given, votes, run.probs[None], run.features, run.posterior, run.posterior)
    assert bool(run.issues.all())
    assert torch.isfinite(run.outlier_score).all()
    assert estimate_rate([run], 1).high == 1
