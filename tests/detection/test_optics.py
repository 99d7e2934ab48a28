"""OPTICS, as scikit-learn has it."""

import numpy as np
import pytest
from sklearn.cluster import OPTICS

from drpl.detection import optics
from drpl.randomness import rng


@pytest.mark.parametrize(("count", "spread", "equal"), [(60, 0, 0), (300, 3, 0), (400, 3, 50)])
@pytest.mark.parametrize("tabled", [optics.TABLED, 5000])
def test_order_and_clusters_are_those_of_scikit_learn(
    count: int, spread: int, equal: int, tabled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optics, "TABLED", tabled)  # a few distances at once, or all
    draws = np.random.default_rng(rng("optics", count).initial_seed())
    points = draws.standard_normal((count, 8))
    points += spread * draws.standard_normal((4, 8))[draws.integers(4, size=count)]
    points[:equal] = points[0]
    theirs = OPTICS(
        min_samples=15, metric="cosine", xi=optics.STEEP, min_cluster_size=20, algorithm="brute"
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        theirs.fit(points)
    order, reachability, before = optics.visit(points, 15)
    assert np.array_equal(order, theirs.ordering_)
    assert reachability == pytest.approx(theirs.reachability_, abs=1e-12)
    assert np.array_equal(before, theirs.predecessor_)
    assert np.array_equal(optics.cluster(points, 15, 20), theirs.labels_)


def test_clusters_are_found_and_what_lies_between_is_in_none() -> None:
    draws = np.random.default_rng(3)
    centres = np.repeat(np.eye(3), 40, axis=0)
    points = centres + 0.02 * draws.standard_normal(centres.shape)
    between = draws.uniform(-1, 0, (5, 3))
    found = optics.cluster(np.concatenate([points, between]), 10, 20)
    assert [len(set(found[k : k + 40])) for k in (0, 40, 80)] == [1, 1, 1]
    assert sorted(set(found[:120])) == [0, 1, 2]
    assert set(found[120:]) == {-1}
