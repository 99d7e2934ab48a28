from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from drpl.data.dataset import Dataset, DatasetSplits, in_memory
from drpl.errors import ConfigError
from drpl.noise.inject import inject, make_noise
from drpl.noise.transition import transition, transition_matrix, uniform
from drpl.randomness import rng


def plain(labels: torch.Tensor, classes: int) -> Dataset:
    names = [str(c) for c in range(classes)]
    return in_memory(torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8), labels, names)


@settings(deadline=None, max_examples=50)
@given(some.integers(2, 12), some.integers(3, 60), some.floats(0, 1), some.integers(0, 9))
def test_uniform_keeps_the_exact_share_in_each_class(
    classes: int, each: int, rate: float, seed: int
) -> None:
    clean = plain(torch.arange(classes * each) % classes, classes)
    noisy = uniform(rate)(clean, rng(seed, "noise"))
    assert noisy.truth is not None
    assert torch.equal(noisy.truth.labels, clean.labels)
    for c in range(classes):
        mine = clean.labels == c
        assert int((noisy.labels[mine] != c).sum()) == round(rate * each)


def test_same_seed_same_labels_other_seed_other_labels() -> None:
    clean = plain(torch.arange(1000) % 10, 10)
    one, again, other = (uniform(0.5)(clean, rng(seed, "noise")).labels for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_uniform_spreads_evenly() -> None:
    clean = plain(torch.arange(50_000) % 10, 10)
    noisy = uniform(0.6)(clean, rng(1, "noise"))
    matrix = transition_matrix(clean.labels, noisy.labels, 10)
    assert torch.allclose(matrix.diagonal(), torch.full((10,), 0.4, dtype=torch.float64))
    assert float((matrix.fill_diagonal_(0.6 / 9) - 0.6 / 9).abs().max()) < 0.02


def test_official_uniform_draw() -> None:
    """Legacy numpy, seed 42: the first int(N r) of the permutation and only they change."""
    clean = plain(torch.arange(50_000) % 10, 10)
    noisy = uniform(0.4, scheme="official")(clean, rng(9, "ignored"))
    changed = (noisy.labels != clean.labels).nonzero().flatten()
    order = np.random.RandomState(42).permutation(50_000)
    assert order[:10].tolist() == [33553, 9427, 199, 12447, 39489, 42724, 10822, 49498, 4144, 36958]
    assert changed.tolist() == sorted(order[:20_000].tolist())


def test_any_matrix_and_its_official_draw() -> None:
    table = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]
    clean = plain(torch.arange(3000) % 3, 3)
    exact = transition(table)(clean, rng(1, "noise"))
    found = transition_matrix(clean.labels, exact.labels, 3)
    assert found.diagonal().tolist() == [0.5, 1.0, 0.5]
    assert torch.allclose(found, torch.tensor(table, dtype=torch.float64), atol=0.05)
    drawn = transition(table, scheme="official")(clean, rng(1, "noise"))
    found = transition_matrix(clean.labels, drawn.labels, 3)
    assert torch.allclose(found, torch.tensor(table, dtype=torch.float64), atol=0.05)
    assert float(found[0, 2]) == 0


def test_rows_of_absent_classes_are_zero() -> None:
    true, given = torch.tensor([0, 0, 0, 2]), torch.tensor([0, 1, 1, 2])
    wanted = torch.tensor([[1 / 3, 2 / 3, 0], [0, 0, 0], [0, 0, 1]], dtype=torch.float64)
    assert torch.equal(transition_matrix(true, given, 3), wanted)
    assert torch.equal(transition_matrix(true[:0], given[:0], 3), torch.zeros(3, 3).double())


def test_manifest_says_what_was_done() -> None:
    clean = DatasetSplits("plain", plain(torch.arange(100) % 10, 10), None, (0.0,), (1.0,))
    noisy, manifest = inject(clean, "uniform:0.6", seed=3)
    assert manifest["nominal"] == pytest.approx(0.6)
    assert manifest["realised"] == pytest.approx(0.6)
    assert manifest["wrong"] == 60
    assert manifest["seed"] == 3
    assert len(manifest["matrix"]) == 10
    _, again = inject(clean, "uniform:0.6", seed=3)
    assert again["labels_digest"] == manifest["labels_digest"]
    assert noisy.truth is not None


def test_matrix_files(tmp_path: Path) -> None:

    table = np.array([[0.9, 0.1], [0.2, 0.8]])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",")
    np.save(tmp_path / "t.npy", table)
    np.savez(tmp_path / "t.npz", table)
    clean = plain(torch.arange(40) % 2, 2)
    labels = [
        make_noise(f"matrix:{tmp_path}/t.{kind}")(clean, rng(1, "n")).labels
        for kind in ("csv", "npy", "npz")
    ]
    assert all(torch.equal(labels[0], other) for other in labels)
    assert int((labels[0] != clean.labels).sum()) == 2 + 4


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("uniform:40", "did you mean 0.4?"),
        ("uniform:-1", "between 0 and 1, got -1"),
        ("uniform", "lacks its value"),
        ("uniform:much", "not a number"),
        ("unifrom:0.4", "did you mean 'uniform'?"),
        ("uniform:0.4,scheme=best", "unknown noise scheme 'best'"),
        ("uniform:0.4,shceme=official", "did you mean 'scheme'?"),
        ("matrix:nowhere.csv", "cannot read a matrix"),
    ],
)
def test_wrong_specs(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_noise(spec)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ([[1.0, 0.0]], "square"),
        ([[0.5, 0.4], [0.0, 1.0]], "row 0 of the transition matrix sums to 0.9"),
        ([[1.5, -0.5], [0.0, 1.0]], "negative"),
    ],
)
def test_wrong_matrices(table: list[list[float]], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        transition(table)


def test_matrix_for_other_classes() -> None:
    with pytest.raises(ConfigError, match="for 2 classes, the data set has 3"):
        transition([[1, 0], [0, 1]])(plain(torch.arange(6) % 3, 3), rng(1, "n"))
