import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays

from drpl.data.dataset import Dataset, in_memory
from drpl.errors import ConfigError
from drpl.noise.confusion import Confusion
from drpl.noise.inject import make_noise
from drpl.noise.kind import NoiseContext
from drpl.noise.nonuniform import CIFAR10, SUPERCLASSES, find_flips
from drpl.noise.transition import transition, transition_matrix
from drpl.randomness import rng

CIFAR100 = tuple(sorted(" ".join(SUPERCLASSES).split()))
COARSE = [  # of the fine classes 0 to 99, as CIFAR-100's own files have them
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
]


def plain(names: tuple[str, ...], each: int) -> Dataset:
    labels = torch.arange(len(names) * each) % len(names)
    return in_memory(torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8), labels, names)


def test_cifar10_flips_five_classes() -> None:
    clean = plain(CIFAR10, 100)
    noise = make_noise("nonuniform:0.4")
    noisy = noise(clean, rng(1, "n"))
    assert noise.nominal(clean) == pytest.approx(0.2)
    found = transition_matrix(clean.labels, noisy.labels, 10)
    for a, b in ((9, 1), (2, 0), (4, 7), (3, 5), (5, 3)):
        assert float(found[a, b]) == pytest.approx(0.4)
    assert (found.diagonal() == 1).nonzero().flatten().tolist() == [0, 1, 6, 7, 8]


def test_the_papers_list_has_four_flips() -> None:
    clean = plain(CIFAR10, 100)
    noise = make_noise("nonuniform:0.4,flips=four")
    assert noise.nominal(clean) == pytest.approx(0.16)
    found = transition_matrix(clean.labels, noise(clean, rng(1, "n")).labels, 10)
    assert float(found[3, 5]) == pytest.approx(0.4)
    assert float(found[5, 5]) == 1  # no dog becomes a cat
    drawn = make_noise("nonuniform:0.4,flips=four,scheme=official")(clean, rng(1, "n")).labels
    assert bool((drawn[clean.labels == 5] == 5).all())
    assert bool((drawn[clean.labels == 3] == 5).any())
    with pytest.raises(ConfigError, match="unknown flips 'six'; known are five, four"):
        make_noise("nonuniform:0.4,flips=six")
    with pytest.raises(ConfigError, match="a variant of CIFAR-10's noise; leave it out"):
        make_noise("nonuniform:0.4,flips=four")(plain(CIFAR100, 2), rng(1, "n"))


def test_cifar100_moves_to_the_next_of_the_superclass() -> None:
    assert len(CIFAR100) == 100
    moves = find_flips(CIFAR100)
    assert moves is not None
    for group in range(20):
        members = [fine for fine in range(100) if COARSE[fine] == group]
        for place, fine in enumerate(members):
            assert moves[fine] == members[(place + 1) % 5]
    assert find_flips(tuple(name.replace("_", " ") for name in CIFAR100)) == moves
    assert find_flips(CIFAR100[:99]) is None


@pytest.mark.parametrize("names", [CIFAR10, CIFAR100])
def test_official_draw_is_one_of_its_row_for_each_sample(names: tuple[str, ...]) -> None:
    clean = plain(names, 2000 // len(names))
    given = make_noise("nonuniform:0.3,scheme=official")(clean, rng(5, "ignored")).labels
    moves = find_flips(names) or {}
    draw = np.random.RandomState(42)
    for i in draw.permutation(2000)[:500].tolist():
        old = int(clean.labels[i])
        row = np.zeros(len(names))
        row[old] = 0.7 if old in moves else 1
        row[moves.get(old, old)] = 0.3 if old in moves else 1
        assert int(given[i]) == draw.choice(len(names), p=row)


@settings(deadline=None, max_examples=40)
@given(some.integers(2, 8), some.floats(0, 1), some.integers(0, 9), some.data())
def test_confused_classes(classes: int, rate: float, seed: int, data: some.DataObject) -> None:
    """Rows of the realised matrix are the confusion matrix's without its diagonal."""
    entries = some.floats(0, 1, width=32)
    table = data.draw(arrays(np.float64, (classes, classes), elements=entries))
    names = tuple(f"class {c}" for c in range(classes))
    around = NoiseContext(confusion=Confusion(torch.from_numpy(table), names))
    clean = plain(names, 400)
    noisy = make_noise(f"nonuniform:{rate}", around)(clean, rng(seed, "noise"))
    found = transition_matrix(clean.labels, noisy.labels, classes).numpy()
    wanted = table + 1e-5
    np.fill_diagonal(wanted, 0)
    wanted = rate * wanted / wanted.sum(1, keepdims=True)
    np.fill_diagonal(wanted, found.diagonal())
    assert np.abs(found.diagonal() - (1 - rate)).max() <= 1 / 400
    assert np.abs(found - wanted).max() < 6 * np.sqrt(0.25 / 400)


@settings(deadline=None, max_examples=40)
@given(some.integers(2, 8), some.integers(0, 9), some.data())
def test_any_matrix(classes: int, seed: int, data: some.DataObject) -> None:
    entries = some.floats(0.01, 1)
    table = data.draw(arrays(np.float64, (classes, classes), elements=entries))
    table /= table.sum(1, keepdims=True)
    clean = plain(tuple(map(str, range(classes))), 400)
    (change,) = transition(table).draw(clean, rng(seed, "noise"))
    assert bool((change.labels != clean.labels[change.rows]).all())
    given = clean.labels.clone()
    given[change.rows] = change.labels
    found = transition_matrix(clean.labels, given, classes).numpy()
    assert np.abs(found.diagonal() - table.diagonal()).max() <= 1 / 400
    assert np.abs(found - table).max() < 6 * np.sqrt(0.25 / 400)


def test_official_confused_classes() -> None:
    """The first int(rN) of the permutation move, each by one draw of its row."""
    names = ("a", "b", "c")
    table = torch.tensor([[0.0, 0.3, 0.7], [0.5, 0.0, 0.5], [0.9, 0.1, 0.0]])
    around = NoiseContext(confusion=Confusion(table, names))
    clean = plain(names, 100)
    given = make_noise("nonuniform:0.4,scheme=official", around)(clean, rng(1, "n")).labels
    chosen = np.random.RandomState(42).permutation(300)[:120]
    assert (given != clean.labels).nonzero().flatten().tolist() == sorted(chosen.tolist())


def test_without_a_confusion_matrix() -> None:
    with pytest.raises(ConfigError, match="`drpl confusion DATA"):
        make_noise("nonuniform:0.4")(plain(("a", "b"), 3), rng(1, "n"))
