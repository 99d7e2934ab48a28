"""Which representation `clean` takes: what the neighbours say decides."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.cleaning import representation
from drpl.cleaning.representation import NONE, choose_encoder, represent
from drpl.data.sources import ReadOptions, load
from drpl.encoders import lite
from drpl.errors import ConfigError


@pytest.fixture
def patterns(tmp_path: Path) -> Path:
    """Stripes, rings and spots of any colour at any place: alike by pattern, not by pixels."""
    draws, (y, x) = np.random.default_rng(4), np.mgrid[:48, :48]
    for k in range(90):
        kind = ("stripes", "rings", "spots")[k % 3]
        a, b = draws.uniform(0, 48, 2)
        if kind == "stripes":
            light = np.sin((x + a) / 2)
        elif kind == "rings":
            light = np.sin(np.hypot(x - a, y - b) / 2)
        else:
            light = np.sin((x + a) / 3) * np.sin((y + b) / 3)
        low, high = draws.uniform(0, 255, (2, 3))
        shown = low + (high - low) * (light[..., None] + 1) / 2
        folder = tmp_path / "patterns" / kind
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(shown.astype(np.uint8)).save(folder / f"{k:02}.png")
    return tmp_path / "patterns"


def test_patterns_are_seen_by_features(patterns: Path, converted: Path) -> None:
    found = represent(str(patterns), "auto", ReadOptions(size=64, cache=converted))
    assert found.features == "lite0"
    assert found.data.train.images.shape == (1280,)
    assert found.data.encoding is not None
    assert not found.data.encoding.mirrored  # there is no time for it
    assert found.data.train.pictures is not None
    assert len(found.data.train.paths or ()) == 90
    (note,) = found.notes
    assert note.endswith("trained on features of lite0")
    assert "by the features of lite0" in note


def test_with_time_mirror_images_are_seen_too(
    patterns: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(representation, "BETTER", (("lite0", True, 2),))
    found = represent(str(patterns), "auto", ReadOptions(size=64, cache=converted), 600)
    assert found.data.encoding is not None
    assert found.data.encoding.mirrored


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        (0.5, ("lite0", False)),  # there is nothing quicker
        (1.9, ("lite0", False)),
        (2.5, ("lite0", True)),
        (4.0, ("lite0+lite2", False)),
        (90, ("lite0+lite2", True)),
    ],
)
def test_time_buys_better_features(times: float, chosen: tuple[str, bool]) -> None:
    assert choose_encoder(times) == chosen


def test_what_is_stored_costs_nothing(patterns: Path, converted: Path) -> None:
    options = ReadOptions(size=64, cache=converted)
    for stored in (False, True):
        found = represent(str(patterns), "auto", options)
        assert found.data.encoding
        assert found.data.encoding.mirrored is stored
        load(str(patterns), replace(options, features="lite0", mirrored=True))


def test_digits_are_seen_by_pixels(converted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(representation, "SHOWN", 200)
    monkeypatch.setattr(lite, "SIZE", 64)  # in which it is converted already
    found = represent("digits", "auto", ReadOptions(size=None, cache=converted))
    assert found.features is None
    assert found.data.train.images.shape == (1, 8, 8)
    assert found.notes[0].endswith("trained on pixels")


def test_what_was_asked_for_is_not_measured(patterns: Path, tmp_path: Path) -> None:
    plain = represent(str(patterns), NONE, ReadOptions(size=16, cache=tmp_path))
    assert plain.data.train.images.shape == (3, 16, 16)
    assert plain.notes == ()


def test_without_weights_it_is_the_pixels(
    patterns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ConfigError("install it with: pip install 'drpl[features]'")

    monkeypatch.setattr(representation, "encode_splits", missing)
    found = represent(str(patterns), "auto", ReadOptions(size=16, cache=tmp_path))
    assert found.data.train.images.shape == (3, 16, 16)
    assert "pip install 'drpl[features]'" in found.notes[0]


def test_vectors_stay_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", x=torch.rand(20, 5).numpy(), y=np.arange(20) % 2)
    found = represent(str(tmp_path / "v.npz"), "auto", ReadOptions())
    assert found.data.train.images.shape == (5,)
    assert found.notes == ()
