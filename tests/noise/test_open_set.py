from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from PIL import Image

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import ComposedImages, FileImages
from drpl.errors import ConfigError
from drpl.noise.confusion import Confusion
from drpl.noise.inject import inject, make_noise
from drpl.noise.kind import NoiseContext
from drpl.randomness import rng
from tests.support.datasets import numbered, shown

OWN, FOREIGN = ("a", "b", "c"), ("x", "y")


def around(count: int, matrix: torch.Tensor | None = None) -> NoiseContext:
    table = torch.full((5, 5), 0.2) if matrix is None else matrix
    return NoiseContext(numbered(count, FOREIGN, 10_000), Confusion(table, OWN + FOREIGN))


@settings(deadline=None, max_examples=40)
@given(
    some.sampled_from(["ood", "ood-nonuniform"]),
    some.integers(1, 40),
    some.floats(0, 1),
    some.integers(2, 200),
    some.integers(0, 9),
)
def test_labels_stay_and_images_come_from_outside(
    kind: str, each: int, rate: float, foreign: int, seed: int
) -> None:
    clean, surroundings = numbered(3 * each, OWN), around(foreign)
    noisy = make_noise(f"{kind}:{rate}", surroundings)(clean, rng(seed, "noise"))
    assert noisy.truth is not None
    assert noisy.truth.source is not None
    assert surroundings.outside is not None
    assert torch.equal(noisy.labels, clean.labels)
    gone = ~noisy.truth.in_distribution
    assert torch.equal(gone, noisy.truth.is_noisy(noisy.labels))
    for c in range(3):
        assert int(gone[clean.labels == c].sum()) == round(rate * each)
    numbers = shown(noisy)
    assert torch.equal(numbers[~gone], shown(clean)[~gone])
    assert bool((numbers[gone] >= 10_000).all())
    assert torch.equal(noisy.truth.source[gone], surroundings.outside.labels[numbers[gone] - 10000])
    assert bool((noisy.truth.source[~gone] == -1).all())


@settings(deadline=None, max_examples=30)
@given(some.integers(1, 60), some.lists(some.integers(0, 30), min_size=2, max_size=4))
def test_no_image_twice_while_there_are_enough(each: int, sizes: list[int]) -> None:
    """However uneven the outside classes are, and shared evenly once all are used."""
    if sum(sizes) == 0:
        sizes[0] = 1
    names = [f"x{c}" for c in range(len(sizes))]
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    foreign = replace(numbered(len(labels), FOREIGN), labels=labels, classes=tuple(names))
    noisy = make_noise("ood:0.5", NoiseContext(foreign))(
        numbered(3 * each, OWN, 10_000), rng(each, "n")
    )
    numbers = shown(noisy)
    uses = torch.bincount(numbers[numbers < 10_000], minlength=len(labels))
    if int(uses.sum()) <= len(labels):
        assert int(uses.max()) <= 1


def test_two_kinds_share_the_outside_without_repeats() -> None:
    noisy = make_noise("ood:0.4+ood-nonuniform:0.1", around(200))(numbered(300, OWN), rng(1, "n"))
    numbers = shown(noisy)
    used = numbers[numbers >= 10_000]
    assert len(used) == 150
    assert len(used.unique()) == 150


@pytest.mark.parametrize(("direction", "wanted"), [("column", [0, 1]), ("row", [1, 0])])
def test_direction(direction: str, wanted: list[int]) -> None:
    """By column: what is taken for the label; by row: what the label is taken for."""
    table = torch.full((5, 5), 0.0)
    table[3, 0] = table[4, 1] = table[0, 4] = table[1, 3] = 1.0
    spec = f"ood-nonuniform:0.5,direction={direction}"
    noisy = make_noise(spec, around(1000, table))(numbered(900, OWN), rng(1, "n"))
    assert noisy.truth is not None
    assert noisy.truth.source is not None
    for c in (0, 1):
        sources = noisy.truth.source[(noisy.labels == c) & ~noisy.truth.in_distribution]
        assert float((sources == wanted[c]).double().mean()) > 0.95


def test_official_draws() -> None:
    """The first int(rN) of one permutation get the first images of the next."""
    clean, surroundings = numbered(3000, OWN), around(2000)
    noisy = make_noise("ood:0.4,scheme=official", surroundings)(clean, rng(7, "ignored"))
    draw = np.random.RandomState(42)
    rows, images = draw.permutation(3000)[:1200], draw.permutation(2000)[:1200]
    assert (shown(noisy)[torch.from_numpy(rows)].numpy() == images + 10_000).all()
    assert int((shown(noisy) >= 10_000).sum()) == 1200
    alike = make_noise("ood-nonuniform:0.4,scheme=official", surroundings)(clean, rng(7, "ignored"))
    numbers = shown(alike)
    assert (numbers >= 10_000).nonzero().flatten().tolist() == sorted(rows.tolist())
    assert len(numbers[numbers >= 10_000].unique()) == 1200


def test_manifest_and_digest() -> None:
    data = DatasetSplits(
        "numbered", numbered(60, OWN), None, (0.5,), (0.5,), numbered(40, FOREIGN, 500)
    )
    noisy, manifest = inject(data, "uniform:0.2+ood:0.4", 1)
    assert noisy.truth is not None
    assert [part["wrong"] for part in manifest["parts"]] == [12, 24]
    assert manifest["wrong"] == 36
    assert manifest["outside"]["images"] == sum(manifest["outside"]["sources"].values()) == 24
    assert manifest["outside"]["classes"] == list(FOREIGN)
    assert [row["outside"] for row in manifest["per_class"]] == [8, 8, 8]
    assert all(row["realised"] == pytest.approx(0.6) for row in manifest["per_class"])
    digests = {inject(data, spec, 1)[1]["labels_digest"] for spec in ("ood:0.2", "ood:0.4")}
    assert len(digests) == 2  # the labels are the same, the samples are not


def test_files_are_replaced_without_reading_them_all(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    files = [tmp_path / f"{k}.png" for k in range(6)]
    for file in files:
        Image.fromarray(draws.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(file)
    own = Dataset(FileImages(files, 4, 3), torch.arange(6) % 2, ("a", "b"), None, tuple("abcdef"))
    foreign = Dataset(
        FileImages(files[:2], 4, 3), torch.arange(2), FOREIGN, paths=("one.png", "two.png")
    )
    noisy = make_noise("ood:0.3", NoiseContext(foreign))(own, rng(1, "n"))
    assert isinstance(noisy.images, ComposedImages)
    assert noisy.paths is not None
    assert noisy.truth is not None
    gone = (~noisy.truth.in_distribution).nonzero().flatten().tolist()
    assert len(gone) == 2
    assert {noisy.paths[row] for row in gone} == {"one.png", "two.png"}
    whole = noisy.images.load(torch.arange(6))
    for row in range(6):
        assert torch.equal(noisy.images.load(torch.tensor([row]))[0], whole[row])
    unnamed = make_noise("ood:0.3", NoiseContext(replace(foreign, paths=None)))(own, rng(1, "n"))
    assert unnamed.paths is not None
    assert [unnamed.paths[row] for row in gone] == ["", ""]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("ood:0.4", "give a second data set with --ood DATA"),
        ("ood-nonuniform:0.4", "give a second data set with --ood DATA"),
    ],
)
def test_no_outside(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make_noise(spec)


def test_no_or_wrong_confusion() -> None:
    foreign = numbered(10, FOREIGN)
    with pytest.raises(ConfigError, match="make a confusion matrix"):
        make_noise("ood-nonuniform:0.4", NoiseContext(foreign))(numbered(9, OWN), rng(1, "n"))
    with pytest.raises(ConfigError, match="unknown direction 'diagonal'"):
        make_noise("ood-nonuniform:0.4,direction=diagonal", around(4))
    same = NoiseContext(replace(foreign, classes=("a", "y")), around(2).confusion)
    with pytest.raises(ConfigError, match="class 'a' is both in the data set and outside it"):
        make_noise("ood-nonuniform:0.4", same)(numbered(9, OWN), rng(1, "n"))
