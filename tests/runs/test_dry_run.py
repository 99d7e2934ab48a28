"""Every preset on every data set: what it would take, without taking it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drpl.config.compose import PRESETS
from drpl.data.sources import ReadOptions, load
from drpl.registry import DATASETS
from drpl.runs.dry_run import _part_time, dry_run
from drpl.runs.experiment import Experiment
from tests.conftest import Command
from tests.support import datasets as made

STAGES = ["relabel", "detect-warmup", "detect", "final-warmup", "final"]


def nothing(home: Path) -> None:
    """The digits are embedded."""


def humans(clean: str, home: Path) -> None:
    """Labels by people on top of one of the CIFAR sets."""
    MAKERS[clean](home)
    labels = load(clean, ReadOptions(data_dir=home)).train.labels.tolist()
    said = {"worse_label": labels[::-1]} if clean == "cifar10" else {"noisy_label": labels[::-1]}
    folder, file = (
        ("cifar-10n", "CIFAR-10_human.pt")
        if clean == "cifar10"
        else ("cifar-100n", "CIFAR-100_human.pt")
    )
    made.make_human(home / folder / file, clean_label=labels, **said)


MAKERS: dict[str, Callable[[Path], object]] = {
    "digits": nothing,
    "cifar10": lambda home: made.make_cifar10(home / "cifar-10-batches-py"),
    "cifar100": lambda home: made.make_cifar100(home / "cifar-100-python"),
    "cifar10n": lambda home: humans("cifar10", home),
    "cifar100n": lambda home: humans("cifar100", home),
    "imagenet32": lambda home: made.make_imagenet(home / "imagenet32", list(range(1, 1001))),
    "imagenet64": lambda home: made.make_imagenet(home / "imagenet64", list(range(1, 1001))),
    "fashion-mnist": made.make_idx,
    "webvision": lambda home: made.make_webvision(home / "webvision"),
}


def test_no_data_set_is_forgotten() -> None:
    assert MAKERS.keys() == DATASETS.keys()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs these times."""
    monkeypatch.setattr("drpl.runs.dry_run.STEPS", 1)
    monkeypatch.setattr("drpl.runs.dry_run.SECONDS", 0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", MAKERS)
def test_every_data_set(name: str, command: Command, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / "home")
    small = ("--set", "width=4", "--set", "min_labelled=0.5", "--size", 40)
    answer = command("train", name, "--dry-run", "--data-dir", "home", *small)
    assert answer.code == 0, answer.err
    assert [line.split()[0] for line in answer.out.splitlines()[1:6]] == STAGES
    assert "GiB" in answer.out
    assert not Path("runs").exists()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset(preset: str, tmp_path: Path) -> None:
    MAKERS["cifar10"](tmp_path)
    side = 90 if preset == "inception" else 40  # its network wants larger ones
    data = load("cifar10", ReadOptions(data_dir=tmp_path, size=side))
    settings = {"width": 4, "min_labelled": 0.5}
    plan = dry_run(Experiment.build(data, preset=preset, settings=settings))
    without = preset in ("released", "fast")
    warmups = {"detect-warmup", "final-warmup"} if without else set()
    assert [one.stage for one in plan.stages] == [s for s in STAGES if s not in warmups]
    assert all(one.epochs > 0 and one.steps > 0 for one in plan.stages)


def test_a_step_that_was_held_up_is_not_counted() -> None:
    """Begin, four steps of which the third was held up, end."""
    step, rest = _part_time([0.0, 1.5, 2.5, 9.5, 10.5, 11.0])
    assert step == 1.0
    assert rest == 0.5 + 0.5
    assert _part_time([0.0, 2.0, 2.25]) == (2.0, 0.25)
