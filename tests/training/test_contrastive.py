"""Contrastive losses, against hand-checked values, and the memory of embeddings."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn.functional import normalize

from drpl.randomness import rng
from drpl.training import contrastive
from drpl.training.contrastive import EmbeddingMemory, contrastive_losses, match_labels

F1 = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
F2 = torch.tensor([[0.8, 0.6], [0.6, 0.8]])


def test_weighted_pairs_of_one_class() -> None:
    s = torch.tensor([[1.0, 0.5], [0.5, 0.5]])
    losses = contrastive_losses(F1, F2, s, 0.2)
    assert losses.tolist() == pytest.approx([0.646595, 0.813262], abs=5e-7)


def test_unsupervised_pairs_of_mixed_views() -> None:
    s = 0.7 * torch.eye(2) + 0.3 * torch.eye(2).flip(0)
    assert contrastive_losses(F1, F2, s, 0.2).mean().item() == pytest.approx(0.613262, abs=5e-7)


def test_supervised_pairs_without_oneself() -> None:
    """Two views of two images that are mixed with each other: a weight of 2 is a positive twice."""
    z, labels = torch.cat([F1, F2]), torch.tensor([0, 1, 0, 1])
    itself = torch.eye(4, dtype=torch.bool)
    first = contrastive_losses(z, z, match_labels(labels, labels), 0.1, itself)
    partners = match_labels(1 - labels, labels)
    second = contrastive_losses(z, z, 2 * partners, 0.1, itself)
    assert first.tolist() == pytest.approx([0.127223] * 2 + [1.806380] * 2, abs=2e-6)
    assert second.tolist() == pytest.approx([5.127223] * 2 + [2.006380] * 2, abs=2e-6)
    assert (0.7 * first + 0.3 * second).mean().item() == pytest.approx(1.746802, abs=2e-6)


def test_a_row_that_is_near_nobody_costs_nothing() -> None:
    s = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    rows = F1.clone().requires_grad_()
    losses = contrastive_losses(rows, F2, s, 0.2, torch.tensor([[True, False], [False, False]]))
    (slope,) = torch.autograd.grad(losses.sum(), rows)
    assert losses[0].item() == 0
    assert slope[0].tolist() == [0, 0]
    assert float(slope[1].abs().sum()) > 0


def test_gradients_are_those_of_finite_differences() -> None:
    rows, columns = (
        torch.randn(5, 3, generator=rng(k), dtype=torch.float64).requires_grad_() for k in (1, 2)
    )
    s = torch.rand(5, 5, generator=rng(3), dtype=torch.float64)
    itself = torch.eye(5, dtype=torch.bool)

    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return contrastive_losses(normalize(a, dim=1), normalize(b, dim=1), s, 0.5, itself)

    assert gradcheck(loss, (rows, columns))


def test_the_memory_forgets_the_oldest() -> None:
    memory = EmbeddingMemory(5, 2)
    for start in (0, 3):
        assert not memory.is_full()
        labels = torch.arange(start, start + 3)
        memory.add(labels[:, None].expand(3, 2).float(), labels)
    assert memory.is_full()
    assert memory.labels.tolist() == [5, 1, 2, 3, 4]
    assert memory.embeddings[:, 0].tolist() == memory.labels.tolist()
    memory.add(torch.zeros(7, 2), torch.arange(10, 17))  # more than there is room for
    assert sorted(memory.labels.tolist()) == [12, 13, 14, 15, 16]


def test_the_memory_keeps_no_gradient_and_resumes() -> None:
    memory, other = EmbeddingMemory(4, 2), EmbeddingMemory(4, 2)
    memory.add(F1.clone().requires_grad_(), torch.tensor([1, 2]))
    assert not memory.embeddings.requires_grad
    other.load_state_dict(memory.state_dict())
    for one in (memory, other):
        one.add(F2, torch.tensor([3, 4]))
    assert other.labels.tolist() == memory.labels.tolist() == [1, 2, 3, 4]


def test_two_processes_have_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What either adds is in both, in the same places."""
    monkeypatch.setattr(contrastive, "all_gather_rows", lambda rows: torch.cat([rows, -rows]))
    memory = EmbeddingMemory(6, 2)
    memory.add(F1, torch.tensor([1, 2]))
    assert memory.labels.tolist() == [1, 2, -1, -2, -1, -1]
    assert int(memory.added) == 4
