import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from drpl.detection.detectors import keep_labels
from drpl.detection.evidence import Evidence
from drpl.detection.mixture import BetaMixture
from drpl.errors import ConfigError, RunError
from drpl.registry import DETECTORS
from drpl.training.evaluate import label_losses, label_margins

DOCS = Path(__file__).parents[2] / "docs"
EVERY = pytest.mark.parametrize("name", DETECTORS)
BY_VECTORS = {"neighbour_agreement", "simifeat_vote", "simifeat_rank"}
BY_NETWORK = pytest.mark.parametrize("name", [n for n in DETECTORS if n not in BY_VECTORS])
FLAT = {"posterior", "loss_gaussians"}  # in their tails


def suspicion(name: str, evidence: Evidence, labels: Tensor) -> Tensor:
    found: Tensor = DETECTORS[name].load()(evidence, labels)
    return found


def keeps(name: str, found: Tensor) -> list[bool]:
    answer: list[bool] = keep_labels(found, DETECTORS[name].threshold).tolist()
    return answer


def seen(logits: Tensor, labels: Tensor) -> Evidence:
    """Evidence of a network that gave these logits. [E, N, C]"""
    rows = [row.log_softmax(1) for row in logits]
    table = torch.stack(
        [torch.stack([label_losses(row, labels), label_margins(row, labels)]) for row in rows]
    )
    mean = torch.stack(rows).exp().mean(0)
    tables = table[:, 0], table[:, 1], rows[-1].exp()
    return Evidence("train", *tables, mean_probs=mean, vectors=logits[-1])


LABELS = torch.tensor([0, 0, 1, 1])
PROBS = torch.tensor([[0.97, 0.02, 0.01], [0.60, 0.30, 0.10], [0.5, 0.2, 0.3], [0.1, 0.45, 0.45]])
HAND = Evidence(
    "train",
    torch.tensor([[1.0, 2.0, 3.0, 1.0], [0.0, 0.5, 2.0, 4.0]]),
    torch.tensor([[1.0, -1.0, -2.0, 0.5], [5.0, 2.0, -3.0, 0.0]]),
    PROBS,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("small_loss", [0.0, 0.5, 2.0, 4.0]),
        ("trajectory", [0.5, 1.25, 2.5, 2.5]),
        ("margin", [-3.0, -0.5, 2.5, -0.25]),
        ("two_stage", [0.03, 0.40, 1.80, 0.55]),
        ("negative", [0.03, 0.40, 0.80, 0.55]),
        ("interpolation_entropy", [0.030098, 0.407968, 0.809681, 0.546885]),
    ],
)
def test_formulas_by_hand(name: str, expected: list[float]) -> None:
    assert suspicion(name, HAND, LABELS).tolist() == pytest.approx(expected, abs=1e-6)


def test_two_stage_keeps_who_agrees_and_is_sure() -> None:
    found = suspicion("two_stage", HAND, LABELS)
    assert keeps("two_stage", found) == [True, False, False, False]
    assert keep_labels(found, 1 - 0.6 + 1e-6).tolist() == [True, True, False, False]
    limit = torch.tensor([[0.95, 0.05]], dtype=torch.float64)
    exactly = Evidence("train", HAND.losses, HAND.margins, limit)
    assert keeps("two_stage", suspicion("two_stage", exactly, torch.tensor([0]))) == [True]


def test_negative_keeps_from_one_half_on() -> None:
    probs = torch.tensor([[0.5, 0.5], [0.49, 0.51], [0.9, 0.1]])
    found = suspicion("negative", Evidence("nl", HAND.losses, HAND.margins, probs), LABELS[:2])
    assert keeps("negative", found) == [True, False]


def two_heaps() -> tuple[Tensor, Tensor, Tensor]:
    """Logits of five epochs [5, N, 3], labels, and which of them are wrong."""
    draws = torch.Generator().manual_seed(4)
    truth = torch.arange(300) % 3
    wrong = torch.rand(300, generator=draws) < 0.3
    labels = torch.where(wrong, (truth + 1) % 3, truth)
    growing = torch.arange(1.0, 6)[:, None, None] * torch.eye(3)[truth]
    return growing + 0.5 * torch.randn(5, 300, 3, generator=draws), labels, wrong


@EVERY
def test_wrong_labels_are_told_from_right_ones(name: str) -> None:
    logits, labels, wrong = two_heaps()
    found = suspicion(name, seen(logits, labels), labels)
    assert float(found[wrong].mean()) > float(found[~wrong].mean()) + 0.1
    clean = torch.tensor(keeps(name, found))
    assert float(clean[~wrong].double().mean()) > 0.6
    # Of few neighbours, a quarter of which are wrong, some outvote the others.
    assert float(clean[wrong].double().mean()) < (0.2 if name in BY_VECTORS else 0.1)


def test_posterior_is_the_mixture_and_decides_as_small_loss_does() -> None:
    logits, labels, _ = two_heaps()
    evidence = seen(logits, labels)
    found = suspicion("posterior", evidence, labels)
    assert torch.equal(found, BetaMixture.fit(evidence.now).noisy(evidence.now))
    raw = suspicion("small_loss", evidence, labels)
    assert keeps("posterior", found) == keeps("small_loss", raw)


def test_confident_ranks_and_decides_as_cleanlab_does() -> None:
    from cleanlab.filter import find_label_issues

    logits, labels, _ = two_heaps()
    evidence = seen(logits, labels)
    found = suspicion("confident", evidence, labels)
    given, probs = labels.numpy(), evidence.probs.numpy()
    issues = find_label_issues(given, probs, filter_by="low_normalized_margin")
    assert 0 < issues.sum() < 300
    assert keeps("confident", found) == (~issues).tolist()
    own = evidence.probs.gather(1, labels[:, None]).squeeze(1)
    others = evidence.probs.scatter(1, labels[:, None], -1).amax(1)
    assert torch.equal(found.argsort(), (others - own).double().argsort())


@BY_NETWORK
@given(
    some.integers(12, 60),
    some.integers(2, 5),
    some.floats(0.5, 4),
    some.integers(0, 10**6),
)
def test_a_worse_sample_is_never_less_suspicious(
    name: str, count: int, classes: int, worse: float, seed: int
) -> None:
    """The last sample is the first, only that each epoch gives its label less."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    logits = 2 * torch.randn(3, count, classes, generator=draws)
    labels[-1], logits[:, -1] = labels[0], logits[:, 0]
    logits[:, -1, labels[0]] -= worse
    found = suspicion(name, seen(logits, labels), labels)
    assert found.shape == (count,)
    assert bool(torch.isfinite(found).all())
    assert float(found[-1]) >= float(found[0]) - 1e-12  # rounding
    if name not in FLAT:
        assert float(found[-1]) > float(found[0])


@pytest.mark.parametrize("name", ["trajectory", "margin", "target_disagreement"])
def test_one_observation_is_too_little(name: str) -> None:
    last = Evidence("train", HAND.losses[-1:], HAND.margins[-1:], PROBS)
    with pytest.raises(RunError, match=f"^{name} needs what several epochs say"):
        suspicion(name, last, LABELS)


@pytest.mark.parametrize(("name", "sign"), [("trajectory", 1), ("margin", -1)])
def test_the_means_that_training_kept_stand_in_for_tracked_epochs(name: str, sign: int) -> None:
    mean = torch.tensor([0.1, 0.7, 0.3, 0.9])
    kept = {"mean_losses": mean} if name == "trajectory" else {"mean_margins": mean}
    last = Evidence("train", HAND.losses[-1:], HAND.margins[-1:], PROBS, **kept)
    assert torch.equal(suspicion(name, last, LABELS), sign * mean)


def test_without_cleanlab(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cleanlab", "cleanlab.filter", "cleanlab.rank"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install 'drpl\[cleanlab\]'"):
        suspicion("confident", HAND, LABELS)


@EVERY
def test_the_page_has_every_detector(name: str) -> None:
    assert f"| `{name}` |" in (DOCS / "detectors.md").read_text()


def test_targets_count_before_the_mean_of_epochs() -> None:
    mean, targets = torch.tensor([[0.6, 0.4], [0.3, 0.7]]), torch.tensor([[0.1, 0.3], [0.2, 0.2]])
    last = Evidence("train", HAND.losses, HAND.margins, PROBS[:2, :2], mean_probs=mean)
    labels = torch.tensor([0, 0])
    found = suspicion("target_disagreement", last, labels)
    assert found.tolist() == pytest.approx([0.4, 1.7])
    assert keeps("target_disagreement", found) == [True, False]
    found = suspicion("target_disagreement", replace(last, targets=targets), labels)
    assert found.tolist() == pytest.approx([1.75, 0.5])  # rows need not sum to 1


@pytest.mark.parametrize("name", sorted(BY_VECTORS))
def test_without_vectors(name: str) -> None:
    with pytest.raises(RunError, match=f"^{name} compares samples by their vectors"):
        suspicion(name, HAND, LABELS)


@pytest.mark.parametrize("name", sorted(BY_VECTORS))
def test_a_label_that_no_neighbour_has_is_the_most_suspicious(name: str) -> None:
    logits, labels, _ = two_heaps()
    truth = logits[-1].argmax(1)
    labels = torch.where(torch.arange(300) == 7, (truth + 1) % 3, truth)
    found = suspicion(name, seen(logits, labels), labels)
    assert int(found.argmax()) == 7
    clean = keeps(name, found)
    assert not clean[7]
    assert sum(clean) > 270


def test_who_is_sure_of_another_class_is_not_kept() -> None:
    evidence = replace(HAND, probs=torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    found = suspicion("interpolation_entropy", evidence, torch.tensor([0, 0]))
    assert keeps("interpolation_entropy", found) == [False, True]
