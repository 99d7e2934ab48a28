import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from drpl.cleaning import plan as planning
from drpl.cleaning.claim import PLAN
from drpl.cleaning.clean import clean
from drpl.cleaning.plan import (
    Choice,
    Forecast,
    fit_budget,
    flipping_harms,
    list_choices,
    list_schedules,
    list_sizes,
    scale_epochs,
)
from drpl.cleaning.records import PlanRecord
from drpl.config.compose import compose, parse_settings
from drpl.data.dataset import DatasetSplits, Encoding
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load
from drpl.errors import ConfigError
from drpl.files import read_arrays, read_json
from drpl.methods.drpl import Config
from drpl.randomness import rng
from drpl.runs.display import parse_duration
from drpl.runs.dry_run import Plan, StagePlan
from drpl.runs.experiment import Experiment


def count_epochs(choice: Choice) -> int:
    return sum(schedule.epochs for schedule in list_schedules(choice.compose()).values())


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("0.5h", 1800)]
)
def test_times_as_people_write_them(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10m!", "-5m", "10 m"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="10m, 2h"):
        parse_duration(text)


def test_images_are_never_enlarged() -> None:
    assert list(list_sizes(8)) == [(8, 16), (8, 8)]
    assert list(list_sizes(28)) == [(28, 16), (24, 16), (16, 16), (16, 8)]
    assert next(list_sizes(300)) == (64, 32)
    for side in (8, 20, 32, 64, 300):
        costs = [s * s * w for s, w in list_sizes(side)]
        assert costs == sorted(costs, reverse=True)  # from the best to the quickest


def test_a_shorter_training_keeps_its_proportions() -> None:
    data = load("digits")
    whole = scale_epochs(Choice(data, "small", {}), 1.0, 64).compose()
    assert whole == compose(Config, "drpl", ["small"])
    half = scale_epochs(Choice(data, "small", {"width": 8}), 0.5, 128).compose()
    assert half.width == 8
    assert half.relabel.begin == whole.relabel.begin / 2
    assert half.final_schedule.epochs == whole.final_schedule.epochs / 2
    assert half.final_schedule.lr == ((1, 0.1), (15, 0.01))  # twice the batch, twice the rate
    assert half.final_schedule.batch_size == 128


def make_dry_run(costs: Iterator[float]) -> Any:
    def dry_run(*_: object, **__: object) -> Plan:
        return Plan([StagePlan("all", 1, 1, 1, next(costs))], 0)

    return dry_run


def sum_up(forecast: Forecast) -> list[float]:
    return [sum(stages.values()) for stages in forecast]


def test_the_best_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load("digits")
    every = list(list_choices(data))
    monkeypatch.setattr(planning, "dry_run", make_dry_run(iter([500.0, 100.0, 10.0])))
    choice, forecast = fit_budget(data, 200, 1, None)
    assert (choice, forecast) == (every[1], [{"all": 100.0}])
    monkeypatch.setattr(planning, "dry_run", make_dry_run(iter([50.0, 30.0] * 9)))
    choice, forecast = fit_budget(data, 240, 3, None)  # 50 + 2 x 30 seconds, and some to spare
    assert choice == replace(every[0], seeds=3)
    assert sum_up(forecast) == [50, 30, 30]
    monkeypatch.setattr(planning, "dry_run", make_dry_run(iter([1e6] * 99)))
    choice, forecast = fit_budget(data, 60, 1, None)  # nothing fits: the quickest
    assert choice == every[-1]
    assert count_epochs(choice) < 0.25 * count_epochs(every[0])
    assert sum_up(forecast) == [1e6]


def test_what_is_hopeless_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowded machine would spend its minutes on networks that it has no time for."""
    pixels = np.zeros((40, 64, 64, 3), dtype=np.uint8)
    data, measured = arrays(pixels, np.arange(40) % 2), []

    def dry_run(experiment: Experiment, *_: object) -> Plan:
        shape, width = experiment.data.train.images.shape, experiment.config.width
        measured.append((shape[1], width))
        return Plan([StagePlan("all", 1, 1, 1, 1e-3 * shape[1] ** 2 * width**2)], 0)

    monkeypatch.setattr(planning, "dry_run", dry_run)
    choice, _ = fit_budget(data, 60, None, None)
    assert len(measured) <= 4 < len(list(list_choices(data)))
    assert measured[0] == (64, 32)
    assert choice.data.train.images.shape == (3, 16, 16)
    assert choice.compose().width == measured[-1][1]


def test_the_time_that_planning_takes_is_not_there_for_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first choice would fit, had measuring it not taken most of the budget."""
    now, data = [0.0], load("digits")

    def dry_run(*_: object) -> Plan:
        now[0] += 80
        return Plan([StagePlan("all", 1, 1, 1, 30.0)], 0)

    monkeypatch.setattr("drpl.cleaning.plan.time.monotonic", lambda: now[0])
    monkeypatch.setattr(planning, "dry_run", dry_run)
    first, *_ = list_choices(data)
    assert fit_budget(data, 200, 1, None)[0] == first
    now[0] = 0
    assert fit_budget(data, 100, 1, None)[0] != first


@pytest.fixture
def encoded() -> DatasetSplits:
    """Features of images, as two encoders would make them of squares of 32 pixels."""
    draws, labels = np.random.default_rng(1), np.arange(60) % 2
    pixels = draws.integers(0, 256, (60, 40, 40, 3), dtype=np.uint8)
    pixels[labels == 0, :20] //= 4
    vectors = arrays((labels[:, None] + draws.normal(size=(60, 5))).astype(np.float32), labels)
    train = replace(vectors.train, pictures=arrays(pixels, labels).train.images)
    return replace(vectors, train=train, encoding=Encoding("lite0+lite2", 32, False, "0" * 16))


@pytest.mark.parametrize(
    ("kind", "costs", "tuned"),
    [("cuda", [10, 10, 30], True), ("cuda", [10, 10, 90], False), ("cpu", [10, 10], False)],
)
def test_a_gpu_with_time_left_trains_the_encoder_too(
    encoded: DatasetSplits,
    kind: str,
    costs: list[float],
    tuned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "choose_device", lambda _: torch.device(kind))
    monkeypatch.setattr(planning, "dry_run", make_dry_run(iter(costs)))
    choice, forecast = fit_budget(encoded, 100 / planning.MARGIN, None, None)
    assert choice.tuned is tuned
    assert choice.seeds == planning.SEEDS
    assert sum_up(forecast) == [10] * 5 + [30] * tuned
    assert ("fine-tuned" in choice.describe()) is tuned
    *others, last = choice.build_all(seed=7)
    assert [one.seed for one in (*others, last)] == list(range(7, 12 + tuned))
    assert last.data.train.images.shape == ((3, 32, 32) if tuned else (5,))
    assert last.config.pretrained is tuned
    assert last.goal == "detect"
    assert torch.equal(last.data.train.labels, encoded.train.labels)


def test_as_many_seeds_as_are_asked_for_whatever_was_planned(
    encoded: DatasetSplits, tmp_path: Path
) -> None:
    *_, last = list_choices(encoded)
    replace(last, seeds=3, tuned=True).save(tmp_path / PLAN)
    assert clean(encoded, tmp_path, repeats=1, quiet=True).figures["repeats"] == 1
    clean(encoded, tmp_path, repeats=1, quiet=True)


@pytest.mark.slow
def test_what_the_trained_encoder_says_counts_too(encoded: DatasetSplits, tmp_path: Path) -> None:
    (first, *_) = list_choices(encoded)
    replace(first, tuned=True).save(tmp_path / PLAN)
    found = clean(encoded, tmp_path, quiet=True)
    assert found.figures["repeats"] == 2
    tuned = tmp_path / "repeats" / "seed-2"
    assert 'network = "lite0"' in (tuned / "config.toml").read_text()
    losses = [
        read_arrays(folder / "splits" / "pooled.npz")["losses"] for folder in (tmp_path, tuned)
    ]
    samples = pd.read_csv(tmp_path / "samples.csv")
    assert np.allclose(samples["loss"], np.mean(losses, 0), atol=1e-4)


def test_data_choose_their_settings() -> None:
    digits = next(list_choices(load("digits")))
    assert not digits.compose().flip  # a mirrored digit is another sign
    assert digits.compose().prior == "uniform"
    assert "not mirrored" in digits.describe()
    x, y = np.zeros((90, 5), np.float32), np.repeat([0, 1, 2], [60, 20, 10])
    vectors = next(list_choices(arrays(x, y)))
    assert vectors.preset == "vectors"
    assert vectors.compose().prior == "estimate"
    assert "unequal" in vectors.describe()


def test_many_images_need_fewer_epochs() -> None:
    def first(count: int) -> Choice:
        pixels = torch.zeros(count, 1, 8, 8, dtype=torch.uint8)
        made: DatasetSplits = arrays(pixels.numpy(), np.arange(count) % 10)
        return next(list_choices(made))

    few, many = first(1000), first(40_000)
    assert few.data.train.images.shape == (1, 8, 8)
    assert count_epochs(few) == count_epochs(Choice(few.data, "small", {}))
    assert count_epochs(many) < count_epochs(few) / 2
    assert many.compose().final_schedule.batch_size == 128


def test_left_and_right() -> None:
    noise = torch.randint(0, 256, (400, 1, 16, 16), generator=rng("n")).to(torch.uint8)
    assert not flipping_harms(TensorImages(noise))
    noise[:, :, :, :8] //= 2
    assert flipping_harms(TensorImages(noise))
    assert flipping_harms(load("digits").train.images)


def test_a_choice_is_kept_and_read_again(tmp_path: Path) -> None:
    data = load("digits")
    *_, last = list_choices(data)
    forecast = [{"relabel": 1.5, "final": 2.0}, {"relabel": 1.25}]
    last.save(tmp_path / "plan.json", None, forecast)
    assert read_json(tmp_path / "plan.json", PlanRecord)["forecast"] == forecast
    again = Choice.load(tmp_path / "plan.json", data, ReadOptions())
    assert again.settings == last.settings
    assert again.compose() == last.compose()
    smaller = scale_epochs(Choice(data.resize(6), "small", {}), 1.0)
    smaller.save(tmp_path / "plan.json")
    assert Choice.load(tmp_path / "plan.json", data, ReadOptions()).data.train.images.shape == (
        1,
        6,
        6,
    )


def test_a_plan_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Its settings are texts as for `--set`."""
    texts = ["pool=true", "prior=estimate", "flip=false", "width=16", "relabel.begin=3",
             "relabel.window=2", "final_schedule.epochs=6",
             "final_schedule.rates=[[1, 0.05], [4, 0.005]]"]  # fmt: skip
    kept = {"side": 8, "preset": "small", "settings": texts, "effort": 0.2}
    (tmp_path / "plan.json").write_text(json.dumps(kept))
    choice = Choice.load(tmp_path / "plan.json", load("digits"), ReadOptions())
    assert choice.settings["relabel"] == {"begin": 3, "window": 2}
    assert choice.compose() == compose(Config, "drpl", ["small"], parse_settings(texts))


@pytest.mark.parametrize(
    ("count", "advice"),
    [
        (36, "more images would help, but more time (--budget) would not"),
        (300, "give them more time (--budget) in a new folder (-o)"),
    ],
)
def test_more_time_is_advised_only_where_it_helps(count: int, advice: str) -> None:
    """36 images are learnt from in 155 steps, whatever the budget is."""
    draws = np.random.default_rng(1)
    pixels = draws.integers(0, 256, (count, 16, 16), dtype=np.uint8)
    *_, quickest = list_choices(arrays(pixels, np.arange(count) % 3))
    (doubt,) = quickest.find_doubts().texts
    assert "steps only, where 300 or more are of use" in doubt
    assert doubt.endswith(f"; {advice}")
