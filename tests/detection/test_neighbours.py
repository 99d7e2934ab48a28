from importlib.util import find_spec
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from drpl.detection import neighbours
from drpl.detection.consensus import find_voters, share_soft_labels, weigh_votes
from drpl.detection.neighbours import find_nearest, find_pairs, vote_by_neighbours
from drpl.errors import RunError


def spread(count: int, width: int, seed: int = 0) -> torch.Tensor:
    """Vectors whose components matter less and less, as those of features do."""
    draws = torch.randn(count, width, generator=torch.Generator().manual_seed(seed))
    return normalize(draws * torch.linspace(1, 0.05, width))


@pytest.mark.parametrize("threshold", [0.1, 0.25, 0.9])
@pytest.mark.parametrize("width", [7, 400])
def test_all_pairs_are_found(threshold: float, width: int) -> None:
    vectors = spread(700, width)
    vectors[600:] = normalize(vectors[:100] + 0.02 * spread(100, width, 1))
    pairs, cosines = find_pairs(vectors, threshold, 2000)
    products = (vectors @ vectors.T).triu(1)
    expected = (products >= threshold).nonzero()
    assert len(expected) >= 100
    assert set(map(tuple, pairs.tolist())) == set(map(tuple, expected.tolist()))
    assert torch.allclose(cosines, products[pairs[:, 0], pairs[:, 1]].clamp(max=1), atol=1e-5)
    assert bool((cosines.diff() <= 0).all())


def test_pairs_of_two_views() -> None:
    vectors, others = spread(600, 300), spread(600, 300, 1)
    others[500] = vectors[20]
    others[20] = vectors[3]
    others[1] = vectors[400]  # the second of a pair comes later
    pairs, _ = find_pairs(vectors, 0.95, 5, others=others)
    assert sorted(pairs.tolist()) == [[3, 20], [20, 500]]


def test_equal_vectors_are_not_every_pair() -> None:
    pairs, cosines = find_pairs(torch.ones(700, 9).half() / 3, 0.9, 4)
    assert len(pairs) == 4 * 696 + 3 + 2 + 1
    assert bool((pairs[:, 0] < pairs[:, 1]).all())
    assert bool((cosines > 0.99).all())


@pytest.mark.parametrize("vectors", [torch.zeros(1, 3), torch.zeros(5, 3), torch.ones(1, 3)])
def test_nothing_is_near_nothing(vectors: torch.Tensor) -> None:
    pairs, cosines = find_pairs(vectors, 0.5, 5)
    assert pairs.shape == (0, 2)
    assert not len(cosines)


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
def test_lists_find_the_nearest_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = spread(3000, 250)
    vectors[2000:2100] = normalize(vectors[:100] + 0.3 * spread(100, 250, 1))
    exact, cosines = find_pairs(vectors, 0.85, 5)
    monkeypatch.setattr(neighbours, "EXACT", 100)
    pairs, found = find_pairs(vectors, 0.85, 5)
    assert len(exact) >= 100
    assert len(pairs) >= 0.98 * len(exact)
    assert set(map(tuple, pairs.tolist())) <= set(map(tuple, exact.tolist()))
    assert float(found.max()) == pytest.approx(float(cosines.max()), abs=1e-5)


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
def test_lists_of_equal_vectors_are_not_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "EXACT", 100)
    pairs, cosines = find_pairs(torch.ones(700, 9).half() / 3, 0.9, 4)
    assert 696 <= len(pairs) <= 4 * 700
    assert bool((pairs[:, 0] < pairs[:, 1]).all())
    assert bool((cosines > 0.99).all())


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
def test_lists_find_pairs_of_two_views(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, others = spread(600, 300), spread(600, 300, 1)
    others[500] = vectors[20]
    others[1] = vectors[400]  # either may come first
    monkeypatch.setattr(neighbours, "EXACT", 100)
    pairs, _ = find_pairs(vectors, 0.95, 5, others=others)
    assert sorted(pairs.tolist()) == [[1, 400], [20, 500]]


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
def test_lists_find_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = normalize(spread(60, 100).repeat(50, 1) + 1.6 * spread(3000, 100, 1))  # in clusters
    exact, wanted = find_nearest(vectors, 5)
    monkeypatch.setattr(neighbours, "MOST", 50)
    products, near = find_nearest(vectors, 5)
    assert not bool((near == torch.arange(3000)[:, None]).any())
    assert float((products - exact).abs().median()) < 1e-5
    both = [len({*a} & {*b}) for a, b in zip(near.tolist(), wanted.tolist(), strict=True)]
    assert sum(both) > 0.8 * wanted.numel()


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
def test_short_lists_leave_no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few samples lie apart from a crowd, in lists that hold fewer than are wanted."""
    few = torch.eye(40)[1:].repeat_interleave(3, 0)
    vectors = torch.cat([torch.eye(40)[:1].repeat(2000, 1), few])
    vectors = normalize(vectors + 0.01 * spread(len(vectors), 40))
    exact, _ = find_nearest(vectors, 60)
    monkeypatch.setattr(neighbours, "MOST", 50)
    monkeypatch.setattr(neighbours, "PROBED", 1)
    products, near = find_nearest(vectors, 60)
    assert bool(products.isfinite().all())
    assert not bool((near == torch.arange(len(vectors))[:, None]).any())
    assert all(len(set(row)) == 60 for row in near.tolist())
    assert float((products - exact).abs().median()) < 1e-5
    # What is said of each neighbour is true of it.
    assert torch.allclose(products, (vectors[:, None] * vectors[near]).sum(2), atol=1e-4)
    labels = (torch.arange(len(vectors)) >= 2000).long()
    distances, voters = find_voters(vectors, 2)
    assert bool(weigh_votes(distances, voters, labels, 2).isfinite().all())


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
def test_an_outlier_may_have_a_list_of_its_own() -> None:
    vectors = 0.01 * torch.randn(400, 8, generator=torch.Generator().manual_seed(1))
    vectors[:, 0] += 1
    vectors[7] = -vectors[8]
    products, near = neighbours.search_nearest(normalize(vectors), 3)
    assert (near[7] != 7).all()
    assert (products[7] < -0.99).all()
    assert (products[torch.arange(400) != 7] > 0.99).all()


def test_a_sample_alone_has_no_neighbours() -> None:
    one = torch.ones(1, 3)
    products, near = find_nearest(one, 5)
    assert products.shape == near.shape == (1, 0)
    assert vote_by_neighbours(one, torch.tensor([1]), 2, 5).tolist() == [[0, 0]]
    assert share_soft_labels(one, torch.tensor([1]), 2).isfinite().all()
    with pytest.raises(RunError, match="two neighbours"):
        find_voters(torch.eye(2), 2)


def test_nearest_of_many_are_taken_from_some(monkeypatch: pytest.MonkeyPatch) -> None:
    centres = torch.eye(4).repeat_interleave(50, 0)
    vectors = normalize(centres + 0.05 * spread(200, 4))
    _, near = find_nearest(vectors, 5)
    assert bool((near // 50 == torch.arange(200)[:, None] // 50).all())
    assert not bool((near == torch.arange(200)[:, None]).any())
    monkeypatch.setattr(neighbours, "MOST", 60)
    monkeypatch.setattr(neighbours, "find_spec", lambda package: None)
    _, fewer = find_nearest(vectors, 5)
    assert len(fewer.unique()) <= 60
    assert bool((fewer // 50 == torch.arange(200)[:, None] // 50).all())


def test_votes_are_shares() -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [0.0, 1.0]])
    votes = vote_by_neighbours(vectors, torch.tensor([0, 1, 1, 2]), 3, 2)
    assert votes[0].tolist() == [0, 1, 0]
    assert votes[1].tolist() == [0.5, 0.5, 0]


class Elsewhere:
    """Rows on a device without memory: what is made of them there cannot be computed with here."""

    device = torch.device("meta")

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def cpu(self) -> Tensor:
        return self.rows


@pytest.mark.parametrize("faiss", [True, False])
def test_neighbours_of_many_rows_lie_where_the_rows_do(
    faiss: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU's labels were compared with neighbours in memory, and training ended."""
    if faiss:
        pytest.importorskip("faiss")
    else:
        monkeypatch.setattr(neighbours, "find_spec", lambda name: None)
    monkeypatch.setattr(neighbours, "MOST", 50)
    monkeypatch.setattr(neighbours, "EXACT", 100)
    rows = spread(200, 8)
    found = neighbours.find_nearest(cast(Tensor, Elsewhere(rows)), 5)
    assert [one.device.type for one in found] == ["meta"] * 2
    assert [one.shape for one in found] == [(200, 5)] * 2
