"""Ten seeds of the campaign."""

import random
from pathlib import Path

import pytest

from tests.campaign.attacks import ATTACKS, Tally
from tests.campaign.scenes import build_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_scene(tmp_path_factory.mktemp("campaign") / "scene")


@pytest.mark.parametrize("seed", range(10))
def test_an_attack(scene: Path, tmp_path: Path, seed: int) -> None:
    name = list(ATTACKS)[seed % len(ATTACKS)]
    tally = Tally()
    ATTACKS[name](scene, tmp_path / "place", random.Random(f"smoke {seed}"), tally)
    assert tally.counts
    assert not tally.failures, tally.describe()
