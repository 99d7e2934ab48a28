"""Clusters of features: clean, of another class, outside."""

import numpy as np
import pytest
import torch
from torch import Tensor

from drpl.detection import clusters
from drpl.detection.clusters import CLEAN, OTHER, OUTSIDE, Clustering, measure_looseness
from drpl.randomness import rng

HOW = Clustering(neighbours=10, sizes=(75, 50), smallest=50)


def make_samples(outside: int = 60) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors, labels and true kinds: two classes of 100, and images of a third, wider, heap."""
    draws = rng("clusters")
    centres = torch.eye(12)[[0, 1, 2]]
    truth = torch.cat([torch.zeros(100), torch.ones(100), torch.full((2 * outside,), 2)]).long()
    spread = torch.tensor([0.05, 0.05, 0.16])[truth]
    vectors = centres[truth] + spread[:, None] * torch.randn(len(truth), 12, generator=draws)
    labels = truth.clone()
    labels[200:] = torch.arange(2 * outside) % 2
    return vectors, labels, torch.where(truth == 2, OUTSIDE, CLEAN)


def test_the_looser_heap_of_each_class_is_outside() -> None:
    vectors, labels, truth = make_samples()
    kinds = HOW.tell_kinds(vectors, labels)
    assert float((kinds[truth == OUTSIDE] == OUTSIDE).double().mean()) > 0.6
    assert float((kinds[truth == OUTSIDE] == CLEAN).double().mean()) < 0.05
    assert float((kinds[truth == CLEAN] == CLEAN).double().mean()) > 0.6
    assert float((kinds[truth == CLEAN] == OUTSIDE).double().mean()) < 0.05
    assert set(kinds.tolist()) <= {CLEAN, OTHER, OUTSIDE}


def test_heaps_of_equal_samples_are_alike() -> None:
    heaps = torch.eye(2)[torch.arange(120) % 2]
    careful = Clustering(neighbours=10, sizes=(10,), smallest=10, cautious=True)
    assert (careful.tell_class(heaps.double().numpy(), heaps) == CLEAN).all()


def test_doubtful_clusters_are_called_clean_by_the_cautious() -> None:
    vectors, labels, _ = make_samples(outside=120)  # more outside than inside
    bold = HOW.tell_kinds(vectors, labels)
    assert int((bold == OUTSIDE).sum()) > 0
    careful = Clustering(neighbours=10, sizes=(75, 50), smallest=50, cautious=True)
    kinds = careful.tell_kinds(vectors, labels)
    for c in (0, 1):
        mine = bold[labels == c]
        if int((mine == OUTSIDE).sum()) > int((mine == CLEAN).sum()):
            assert int(kinds[labels == c].sum()) == 0


def test_every_class_keeps_a_few_and_loners_are_groups_of_their_own() -> None:
    vectors, labels, _ = make_samples()
    kinds, groups = HOW.divide(vectors, labels)
    outside = kinds == OUTSIDE
    assert all(int((kinds[labels == c] == CLEAN).sum()) >= 6 for c in (0, 1))
    assert int(groups[~outside].abs().sum()) == 0
    found = HOW.group_outside(vectors[outside])
    alone = groups[outside][found < 0]
    assert len(alone.unique()) == len(alone)
    assert not set(alone.tolist()) & set(found[found >= 0].tolist())
    few = HOW.group_outside(vectors[:12])
    assert few.tolist() == [-1] * 12


def test_one_heap_is_clean() -> None:
    vectors = torch.eye(6)[[0]] + 0.05 * torch.randn(60, 6, generator=rng("one"))
    unit = torch.nn.functional.normalize(vectors)
    kinds = HOW.tell_class(np.zeros((60, 20)) + unit[:, :1].numpy(), unit)
    assert kinds.tolist() == [CLEAN] * 60


def test_weights_are_cubes_of_cosines_and_the_graph_is_normalised_twice() -> None:
    """Of four samples in a ring each coordinate is an eigenvector of the graph by hand."""
    angle = torch.tensor([0.0, 0.3, 1.0, 1.4, 0.7])
    unit = torch.stack([angle.cos(), angle.sin()], 1)
    found = Clustering(neighbours=2).find_coordinates(unit)
    assert found.shape == (5, 2)
    cosines = (unit @ unit.T).double().fill_diagonal_(-9)
    near = cosines.topk(2).indices
    graph = torch.zeros(5, 5).double().scatter_(1, near, cosines.gather(1, near) ** 3)
    graph = graph + graph.T
    for _ in range(2):
        scale = graph.sum(0) ** -0.5
        graph = scale[:, None] * graph * scale
    _, vectors = torch.linalg.eigh(graph)
    for k, wanted in enumerate((vectors[:, -3], vectors[:, -2])):
        assert abs(float(wanted @ torch.from_numpy(found[:, k]))) == pytest.approx(1, abs=1e-3)


def test_parts_that_nothing_connects_are_told_apart_by_either_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Coordinates may be any mixture within the parts; what counts are the angles between them."""
    vectors, _, truth = make_samples()
    unit = torch.nn.functional.normalize(vectors)
    exact = HOW.find_coordinates(unit)
    monkeypatch.setattr(clusters, "DENSE", 0)
    for found in (exact, HOW.find_coordinates(unit)):
        rows = found[:, -2:] / np.linalg.norm(found[:, -2:], axis=1, keepdims=True)
        heaps = [rows[:100], rows[100:200], rows[truth == OUTSIDE]]
        for heap in heaps:
            assert (heap @ heap.T).min() > 0.99
        between = [float(heaps[j][0] @ heaps[k][0]) for j, k in ((0, 1), (0, 2), (1, 2))]
        assert max(between) < 0.5


def test_looseness_by_hand() -> None:
    unit = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    assert measure_looseness(unit, 2) == pytest.approx((0.2 + 0.2 + 0.4) / 3)
    assert measure_looseness(unit, 75) == pytest.approx((0.6 + 0.3 + 0.7) / 3)
    assert measure_looseness(unit[:1], 5) == 0
