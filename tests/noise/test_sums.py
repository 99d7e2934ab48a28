from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as some

from drpl.data.images import TensorImages
from drpl.errors import ConfigError
from drpl.noise.confusion import Confusion
from drpl.noise.inject import make_noise
from drpl.noise.kind import NoiseContext, allot
from drpl.noise.transition import uniform
from drpl.randomness import rng
from tests.noise.test_open_set import FOREIGN, OWN
from tests.support.datasets import numbered

KINDS = ("uniform", "nonuniform", "instance", "ood", "ood-nonuniform")
AROUND = NoiseContext(
    numbered(150, FOREIGN, 10_000), Confusion(torch.full((5, 5), 0.2), OWN + FOREIGN)
)


@settings(deadline=None, max_examples=60)
@given(
    some.lists(some.tuples(some.sampled_from(KINDS), some.floats(0.01, 1)), min_size=1, max_size=5),
    some.floats(0, 1),
    some.integers(1, 30),
    some.integers(0, 9),
)
@example([("uniform", 1.0), ("ood", 1.0), ("uniform", 1.0), ("ood", 3.0)], 1.0, 30, 0)
def test_parts_take_different_samples_and_each_its_share(
    parts: list[tuple[str, float]], total: float, each: int, seed: int
) -> None:
    whole = sum(share for _, share in parts)
    rates = [round(total * share / whole, 6) for _, share in parts]
    spec = "+".join(f"{kind}:{rate:f}" for (kind, _), rate in zip(parts, rates, strict=True))
    clean, noise = numbered(3 * each, OWN), make_noise(spec, AROUND)
    changes = noise.draw(clean, rng(seed, "noise"))
    rows = torch.cat([change.rows for change in changes])
    assert len(rows.unique()) == len(rows)
    for change, rate in zip(changes, rates, strict=True):
        counts = torch.bincount(clean.labels[change.rows], minlength=3)
        assert float((counts - rate * each).abs().max()) <= 1
        moved = change.labels != clean.labels[change.rows]
        assert bool(moved.all() if change.images is None else not moved.any())
    noisy = noise.apply(clean, changes)
    assert noisy.truth is not None
    assert int(noisy.truth.is_noisy(noisy.labels).sum()) == len(rows)
    again = noise(clean, rng(seed, "noise"))
    assert torch.equal(again.labels, noisy.labels)
    everything = torch.arange(len(clean))
    assert torch.equal(again.images.load(everything), noisy.images.load(everything))


@settings(deadline=None, max_examples=100)
@given(some.lists(some.floats(0.001, 1), min_size=1, max_size=12), some.integers(1, 50))
def test_rounded_shares_fit(shares: list[float], each: int) -> None:
    clean = numbered(3 * each, OWN)
    rates = torch.tensor(shares, dtype=torch.float64)
    rates = (rates / rates.sum())[:, None].expand(-1, 3)
    counts = allot(rates, clean)
    assert int(counts.min()) >= 0
    assert int(counts.sum(0).max()) <= each
    assert float((counts - rates * each).abs().max()) <= 1


def test_halves_that_are_rounded_up_give_back() -> None:
    rates = torch.full((4, 3), 0.25, dtype=torch.float64)
    assert allot(rates, numbered(18, OWN)).sum(0).tolist() == [6, 6, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_differ(kind: str) -> None:
    clean, noise = numbered(300, OWN), make_noise(f"{kind}:0.3", AROUND)
    one, other = (noise.draw(clean, rng(seed, "noise"))[0] for seed in (1, 2))
    assert not torch.equal(one.rows.sort().values, other.rows.sort().values)


def test_instance_noise_depends_on_the_image() -> None:
    """Equal images of a class mostly move together."""
    clean = numbered(900, OWN)
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (2, 1, 16, 16), dtype=torch.uint8, generator=generator)
    clean = replace(clean, images=TensorImages(pixels[torch.arange(900) // 3 % 2]))
    (change,) = make_noise("instance:0.5").draw(clean, rng(4, "noise"))
    together = []
    for c in range(3):
        for kind in (0, 1):
            same = (clean.labels[change.rows] == c) & (change.rows // 3 % 2 == kind)
            shares = torch.bincount(change.labels[same], minlength=3) / same.sum()
            together.append(float(shares.max()))
    assert sum(together) / 6 > 0.8


def test_a_sum_in_python_and_in_text() -> None:
    clean = numbered(90, OWN)
    added = (uniform(0.2) + uniform(0.3))(clean, rng(1, "n"))
    assert torch.equal(
        added.labels, make_noise("uniform:0.2+uniform:0.3")(clean, rng(1, "n")).labels
    )


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("uniform:0.6+uniform:0.6", "would corrupt 1.2 of class 'a'; choose rates that sum"),
        ("uniform:0.1,scheme=official+uniform:0.1", "leave it out of a sum"),
        ("uniform:0.1+ood", "lacks its value"),
        ("uniform:0.1+odd:0.1", "unknown noise 'odd'; did you mean 'ood'"),
    ],
)
def test_wrong_sums(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make_noise(spec, AROUND)(numbered(90, OWN), rng(1, "n"))
