from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from drpl.cleaning import plan as planning
from drpl.cleaning.plan import Choice, choices, flipping_harms, scale_epochs, seconds, sizes, within
from drpl.config.compose import compose
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.data.sources import load
from drpl.errors import ConfigError
from drpl.methods.drpl import Config
from drpl.randomness import rng
from drpl.runs.dry_run import Plan, StagePlan


def composed(choice: Choice) -> Config:
    return compose(Config, "drpl", [choice.preset], choice.settings)


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("0.5h", 1800)]
)
def test_times_as_people_write_them(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10m!", "-5m", "10 m"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="10m, 2h"):
        seconds(text)


def test_images_are_never_enlarged() -> None:
    assert list(sizes(8)) == [(8, 16), (8, 8)]
    assert list(sizes(28)) == [(28, 16), (24, 16), (16, 16), (16, 8)]
    assert next(sizes(300)) == (64, 32)
    for side in (8, 20, 32, 64, 300):
        costs = [s * s * w for s, w in sizes(side)]
        assert costs == sorted(costs, reverse=True)  # from the best to the quickest


def test_a_shorter_training_keeps_its_proportions() -> None:
    data = load("digits")
    whole = composed(scale_epochs(data, "small", [], 1.0, 64))
    assert whole == compose(Config, "drpl", ["small"], ())
    half = composed(scale_epochs(data, "small", ["width=8"], 0.5, 128))
    assert half.width == 8
    assert half.relabel.begin == whole.relabel.begin / 2
    assert half.final_schedule.epochs == whole.final_schedule.epochs / 2
    assert half.final_schedule.rates == ((1, 0.1), (15, 0.01))  # twice the batch, twice the rate
    assert half.final_schedule.batch_size == 128


def planned(costs: Iterator[float]) -> Any:
    def dry_run(*_: object, **__: object) -> Plan:
        return Plan([StagePlan("all", 1, 1, 1, next(costs))], 0)

    return dry_run


def test_the_best_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load("digits")
    every = list(choices(data))
    monkeypatch.setattr(planning, "rehearse", planned(iter([500.0, 100.0, 10.0])))
    choice, time = within(data, 200, 1, None)
    assert (choice, time) == (every[1], 100 / planning.MARGIN)
    monkeypatch.setattr(planning, "rehearse", planned(iter([50.0, 30.0] * 9)))
    choice, time = within(data, 190, 3, None)  # 50 + 2 x 30 seconds, and some to spare
    assert (choice, time) == (every[0], 110 / planning.MARGIN)
    monkeypatch.setattr(planning, "rehearse", planned(iter([1e6] * 99)))
    choice, time = within(data, 60, 1, None)  # nothing fits: the quickest, and the truth about it
    assert choice == every[-1]
    assert choice.effort == planning.LEAST
    assert time > 60


def test_data_choose_their_settings() -> None:
    digits = next(choices(load("digits")))
    assert not composed(digits).flip  # a mirrored digit is another sign
    assert composed(digits).prior == "uniform"
    assert "not mirrored" in digits.text()
    x, y = np.zeros((90, 5), np.float32), np.repeat([0, 1, 2], [60, 20, 10])
    vectors = next(choices(arrays(x, y)))
    assert vectors.preset == "vectors"
    assert composed(vectors).prior == "estimate"
    assert "unequal" in vectors.text()


def test_many_images_need_fewer_epochs() -> None:
    def first(count: int) -> Choice:
        pixels = torch.zeros(count, 1, 8, 8, dtype=torch.uint8)
        made: DatasetSplits = arrays(pixels.numpy(), np.arange(count) % 10)
        return next(choices(made))

    few, many = first(1000), first(40_000)
    assert (few.effort, few.data.train.images.shape) == (1.0, (1, 8, 8))
    assert many.effort < 0.5
    assert composed(many).final_schedule.batch_size == 128


def test_left_and_right() -> None:
    noise = torch.randint(0, 256, (400, 1, 16, 16), generator=rng("n")).to(torch.uint8)
    assert not flipping_harms(TensorImages(noise))
    noise[:, :, :, :8] //= 2
    assert flipping_harms(TensorImages(noise))
    assert flipping_harms(load("digits").train.images)
