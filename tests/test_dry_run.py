"""Every preset on every data set: what it would take, without taking it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drpl.config import PRESETS
from drpl.data import DATASETS
from tests.conftest import Command
from tests.data import made

STAGES = ["relabel", "detect-warmup", "detect", "final-warmup", "final"]


def nothing(home: Path) -> None:
    """The digits are embedded."""


MAKERS: dict[str, Callable[[Path], object]] = {
    "digits": nothing,
    "cifar10": lambda home: made.make_cifar10(home / "cifar-10-batches-py"),
    "cifar100": lambda home: made.make_cifar100(home / "cifar-100-python"),
    "imagenet32": lambda home: made.make_imagenet(home / "imagenet32", list(range(1, 1001))),
    "imagenet64": lambda home: made.make_imagenet(home / "imagenet64", list(range(1, 1001))),
    "fashion-mnist": made.make_idx,
    "webvision": lambda home: made.make_webvision(home / "webvision"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_data_set_under_every_preset(name: str, command: Command, tmp_path: Path) -> None:
    assert name in DATASETS
    MAKERS[name](tmp_path / "home")
    own = name if name in PRESETS else "small"
    for preset in PRESETS if name == "digits" else (own,):
        small = ("--set", "width=4", "--set", "min_labelled=0.5", "--size", 40)
        words = ("--data-dir", "home", "--preset", preset, *small)
        answer = command("train", name, "--dry-run", *words)
        assert answer.code == 0, answer.err
        lines = answer.out.splitlines()
        warmups = {"detect-warmup", "final-warmup"} if preset == "released" else set()
        stages = [stage for stage in STAGES if stage not in warmups]
        assert [line.split()[0] for line in lines[1 : 1 + len(stages)]] == stages
        assert "GiB" in answer.out
    assert not Path("runs").exists()
