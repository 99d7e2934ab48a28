"""How to train on data that nobody knows, within a time: the settings of `drpl clean`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import adaptive_avg_pool2d

from drpl.cleaning.records import PlanRecord
from drpl.cleaning.representation import NONE, represent
from drpl.config.compose import merge, parse_settings
from drpl.config.from_data import choose_batch_size, find_schedules
from drpl.data.dataset import DatasetSplits, Encoding
from drpl.data.images import Images, redecode
from drpl.data.sources import ReadOptions
from drpl.encoders.lite import RELEASES
from drpl.files import read_json, write_json
from drpl.randomness import rng
from drpl.runs.dry_run import Speeds, dry_run
from drpl.runs.execute import choose_device
from drpl.runs.experiment import (
    AnyData,
    Execution,
    Experiment,
    Goal,
    compose_for,
    suit_settings,
)
from drpl.training.schedule import Schedule

METHOD = "drpl"
MARGIN = 0.6  # of the time is planned: a machine has other things to do, and tables are written
HOPELESS = 2  # times that, by a low guess: measuring would only take time itself
SIDES = (64, 48, 32, 24, 16)  # pixels, from the best to the quickest
WIDE = 32  # pixels from which on a network of twice the width is worth its time
BATCH = 64  # images, that the preset's rates are made for
STEPS = 20_000  # of a whole training are enough: the more images, the fewer epochs
LEAST = 0.2  # of the preset's epochs; below that nothing is learnt
UNEQUAL = 3  # times as many samples in the largest class as in the smallest
SHOWN = 2000  # images that are looked at to tell left from right
SEEDS = 5  # that vectors are trained with at most: more add little
HARMFUL = 0.65  # share of mirrored images that are recognised: above it mirroring harms
USEFUL = {"images": 300, "vectors": 100}  # steps below which networks have hardly learnt
SCARCE = 5  # images of a class below which they cannot
MANY = 0.1  # share of the images in such classes from which on nothing is sure
FEWEST = 10  # images in all that there must be

Settings = Mapping[str, Any]  # nested, as in a preset file
Forecast = Sequence[Mapping[str, float]]  # seconds of each run's stages


@dataclass(frozen=True)
class Doubts:
    """Sentences without their full stop, and whether they are on the rate."""

    texts: list[str]
    on_rate: bool


@dataclass(frozen=True)
class Choice:
    """Data in the size in which they are trained, and the settings of DRPL for them."""

    data: DatasetSplits
    preset: str
    settings: Settings
    seeds: int = 1  # to train with
    notes: tuple[str, ...] = ()  # why the data are represented as they are
    tuned: bool = False  # one run more, in which the encoder itself learns
    copied: int = 0  # images that copies are made of to find near-duplicates; 0: no search

    def build_all(self, seed: int = 1) -> Iterator[Experiment]:
        """All that is trained: with a final model, with other seeds, and the encoder itself."""
        for k in range(self.seeds):
            yield self.build(seed + k, "detect" if k else "train")
        if self.tuned:
            yield _finetune(self).build(seed + self.seeds, "detect")

    def build(self, seed: int = 1, goal: Goal = "train") -> Experiment:
        """What is trained; notes on the data are for the first run only."""
        return Experiment.build(
            self.data if goal == "train" else replace(self.data, notes=()),
            method=METHOD,
            preset=self.preset,
            settings=self.settings,
            seed=seed,
            goal=goal,
        )

    def compose(self) -> Any:
        """The method's whole configuration."""
        return compose_for(METHOD, [self.preset], self.settings)

    def describe(self) -> str:
        """The choice in one line."""
        config, shape = self.compose(), self.data.train.images.shape
        size = f"images of {shape[1]} x {shape[2]}" if len(shape) == 3 else f"vectors of {shape[0]}"
        if config.dimensions:
            size += f" in {config.dimensions} dimensions"
        epochs = sum(schedule.epochs for schedule in list_schedules(config).values())
        batch = config.final_schedule.batch_size
        parts = [size, f"width {config.width}", f"{epochs} epochs", f"batches of {batch}"]
        if len(shape) == 3:
            parts.append("mirrored" if config.flip else "not mirrored")
        if config.prior == "estimate":
            parts.append("classes of unequal size")
        if self.seeds > 1:
            parts.append(f"{self.seeds} seeds")
        if self.tuned:
            parts.append("the encoder fine-tuned")
        return ", ".join(parts)

    def count_steps(self) -> int:
        """Batches that a network learns from, of all stages together."""
        count = len(self.data.train)
        schedules = list_schedules(self.compose()).values()
        return sum(one.epochs * ceil(count / one.batch_size) for one in schedules)

    def count_work(self) -> float:
        """How much a whole training multiplies, up to a factor that all choices for data share."""
        config, shape = self.compose(), self.data.train.images.shape
        epochs = sum(schedule.epochs for schedule in list_schedules(config).values())
        return float(epochs * prod(shape[1:]) * config.width**2)

    def find_doubts(self) -> Doubts:
        """Why too little may be learnt to believe what is found."""
        doubts, train = [], self.data.train
        useful = USEFUL["vectors" if len(train.images.shape) == 1 else "images"]
        steps = self.count_steps()
        if steps < useful:
            doubts.append(
                f"the networks learn in {steps:,} steps only, where {useful} or more are of use: "
                f"what they have not learnt looks like wrong labels; {self._advise(useful)}"
            )
        counts = torch.bincount(train.labels, minlength=len(train.classes))
        scarce = counts[counts < SCARCE]
        if len(scarce):
            doubts.append(
                f"{len(scarce):,} of {len(counts):,} classes have fewer than {SCARCE} images: too "
                "few to tell a wrong label from a rare one"
            )
        return Doubts(doubts, steps < useful or int(scarce.sum()) >= MANY * len(train))

    def _advise(self, useful: int) -> str:
        """What leads to as many steps as are of use: with few images no time does."""
        most = next(list_choices(self.data)).count_steps()
        if most >= useful:
            return "give them more time (--budget) in a new folder (-o)"
        return "more images would help, but more time (--budget) would not"

    def save(
        self,
        path: Path,
        about: Mapping[str, Any] | None = None,
        forecast: Forecast = (),
        budget: str | None = None,
    ) -> None:
        """Keep the choice, so that a stopped call goes on with it, and what data it is for."""
        shape, made = self.data.train.images.shape, self.data.encoding
        side = shape[1] if len(shape) == 3 else None
        plan = {"side": side, "preset": self.preset, "settings": self.settings, "seeds": self.seeds}
        more: dict[str, Any] = {
            "encoding": made and asdict(made),
            "notes": self.notes,
            "tuned": self.tuned,
        }
        more |= {"copied": self.copied, "forecast": forecast, "budget": budget}
        write_json(path, {**plan, **more, "data": about}, sealed=True)

    @classmethod
    def load(cls, path: Path, data: AnyData, options: ReadOptions) -> "Choice":
        """The choice that was kept, with the same data read as they were then."""
        kept = read_json(path, PlanRecord)
        side, settings = kept["side"], kept["settings"]
        if isinstance(settings, list):  # before version 0.2 they were `a.b=c` texts
            settings = parse_settings(settings)
        features = NONE
        if made := kept.get("encoding"):
            features = made["encoder"]
            options = replace(options, size=made["size"], mirrored=made["mirrored"])
        whole = represent(data, features, options).data
        shrunk = _shrink(whole, side) if side else whole
        seeds, notes = kept.get("seeds", 1), tuple(kept.get("notes", ()))
        more = {name: kept[name] for name in ("tuned", "copied") if name in kept}
        return cls(shrunk, kept["preset"], settings, seeds, notes, **more)


def fit_budget(
    data: DatasetSplits, budget: float, repeats: int | None, device: str | None
) -> tuple[Choice, Forecast]:
    """The best way to train that takes no longer than `budget` seconds here, and what each takes.

    Where even the quickest takes longer it is that one; what is hopeless is not tried out. Vectors
    are trained on so quickly that there is time for several seeds, whose losses are averaged,
    unless `repeats` says how many. Where a GPU then has time left, the encoder is fine-tuned as
    well.
    """
    trial, began = _Trial(device, repeats), time.monotonic()

    def allow() -> float:  # measuring takes its time, too
        return MARGIN * (budget - (time.monotonic() - began))

    for choice in list_choices(data):
        if trial.guess(choice) <= HOPELESS * allow() and trial.measure(choice) <= allow():
            break
    else:
        trial.measure(choice)
    first, more = trial.plans
    seeds = repeats or 1
    if repeats is None and len(data.train.images.shape) == 1:
        seeds = max(1, min(SEEDS, 1 + int((allow() - first.seconds) / more.seconds)))
    choice, plans = replace(choice, seeds=seeds), [first, *[more] * (seeds - 1)]
    if repeats is None and _can_finetune(data, device):
        tuned = dry_run(_finetune(choice).build(goal="detect"), Execution(device=device))
        if sum(plan.seconds for plan in (*plans, tuned)) <= allow():
            choice, plans = replace(choice, tuned=True), [*plans, tuned]
    return choice, [{one.stage: one.seconds for one in plan.stages} for plan in plans]


class _Trial:
    """What ways to train take here; what was measured for one serves others of its size."""

    def __init__(self, device: str | None, repeats: int | None) -> None:
        self.execution, self.repeats = Execution(device=device), repeats
        self.speeds: dict[tuple[int, ...], Speeds] = {}
        self.seconds_per_work = 0.0  # of the latest that was measured

    def measure(self, choice: Choice) -> float:
        """Seconds of all runs that are asked for; `plans` are of the first, and of the others."""
        shape = choice.data.train.images.shape
        speeds = self.speeds.setdefault(shape, {})
        first = more = dry_run(choice.build(), self.execution, speeds)
        if self.repeats != 1 and (self.repeats or len(shape) == 1):
            more = dry_run(choice.build(goal="detect"), self.execution, speeds)
        self.plans = first, more
        seconds = first.seconds + ((self.repeats or 1) - 1) * more.seconds
        self.seconds_per_work = seconds / choice.count_work()
        return seconds

    def guess(self, choice: Choice) -> float:
        """At least how many seconds it takes: smaller networks are slower for what they do."""
        return self.seconds_per_work * choice.count_work()


def _can_finetune(data: DatasetSplits, device: str | None) -> bool:
    """Whether the vectors are of an encoder that can be trained, and there is a GPU for it."""
    known = data.encoding is not None and _first_encoder(data.encoding) in RELEASES
    return known and data.train.pictures is not None and choose_device(device).type == "cuda"


def _first_encoder(made: Encoding) -> str:
    """The encoder, or the first of two side by side."""
    return made.encoder.split("+")[0]


def _finetune(choice: Choice) -> Choice:
    """The same samples as images of the encoder's size, and the encoder as the network."""
    data, made = choice.data, choice.data.encoding
    assert made is not None  # noqa: S101  see `_can_finetune`
    assert data.train.pictures is not None  # noqa: S101
    images = redecode(data.train.pictures, made.size)
    train = replace(data.train, images=images, pictures=None)
    settings: dict[str, Any] = {"pool": True, "network": _first_encoder(made)}
    settings["flip"] = not flipping_harms(images)
    if "prior" in choice.settings:
        settings["prior"] = choice.settings["prior"]
    return Choice(replace(data, train=train, test=None, encoding=None), "finetune", settings)


def list_choices(data: DatasetSplits) -> Iterator[Choice]:
    """Ways to train DRPL on the data, from the best to the quickest."""
    train, shape = data.train, data.train.images.shape
    shared: dict[str, Any] = {"pool": True}  # both stages guard against images of no class
    counts = torch.bincount(train.labels)
    if int(counts.max()) > UNEQUAL * int(counts.min()):
        shared["prior"] = "estimate"
    if len(shape) == 1:
        shared |= suit_settings(METHOD, data)
        for effort in (1.0, 0.5, LEAST):
            yield scale_epochs(Choice(data, "vectors", shared), effort)
        return
    shared["flip"] = not flipping_harms(train.images)
    batch = choose_batch_size(len(train), len(train.classes), BATCH, 2 * BATCH)
    preset = list_schedules(Choice(data, "small", {}).compose())
    epochs = sum(schedule.epochs for schedule in preset.values())
    effort = min(1.0, max(LEAST, STEPS / (epochs * len(train) / batch)))
    for side, width in list_sizes(shape[1]):
        last = Choice(_shrink(data, side), "small", {**shared, "width": width})
        yield scale_epochs(last, effort, batch)
    while effort > LEAST:
        effort = max(LEAST, effort / 2)
        yield scale_epochs(last, effort, batch)


def list_sizes(side: int) -> Iterator[tuple[int, int]]:
    """Sides of images and widths of networks, none larger than the images are."""
    sides = [side, *(s for s in SIDES if s < side)] if side <= SIDES[0] else SIDES
    for s in sides:
        if s >= WIDE:
            yield s, 32
        if s <= WIDE:
            yield s, 16
    yield sides[-1], 8


def scale_epochs(choice: Choice, effort: float, batch: int | None = None) -> Choice:
    """The choice with a share of its epochs and, for larger batches, as much larger rates."""
    config = choice.compose()
    scaled: dict[str, Any] = {
        "relabel": {
            "begin": max(1, round(config.relabel.begin * effort)),
            "window": max(2, round(config.relabel.window * effort)),
        }
    }
    for name, schedule in list_schedules(config).items():
        faster = batch / schedule.batch_size if batch else 1
        rates = {1 + round((epoch - 1) * effort): rate * faster for epoch, rate in schedule.lr}
        scaled[name] = {
            "epochs": max(2, round(schedule.epochs * effort)),
            "lr": [list(pair) for pair in rates.items()],
            "batch_size": batch or schedule.batch_size,
        }
    settings = deepcopy(dict(choice.settings))
    merge(settings, scaled)
    return replace(choice, settings=settings)


def list_schedules(config: Any) -> dict[str, Schedule]:
    """The schedules of a configuration by their names."""
    return {name: getattr(config, name) for name in find_schedules(type(config))}


def flipping_harms(images: Images) -> bool:
    """Whether left and right differ, as in writing: then mirrored images teach what is not there.

    A linear classifier tries to recognise mirrored images by their asymmetry.
    """
    index = torch.randperm(len(images), generator=rng("handed"))[:SHOWN]
    pixels = images.load(index.sort().values).float().mean(1, keepdim=True) / 255
    small = adaptive_avg_pool2d(pixels, min(16, images.shape[1])).squeeze(1)
    odd = (small - small.flip(2))[:, :, : small.shape[2] // 2].flatten(1).numpy()
    shuffled = odd[torch.randperm(len(odd), generator=rng("halves")).numpy()]
    known, new = np.array_split(shuffled, 2)
    sides = np.repeat([1, 0], len(known))
    model = LogisticRegression(fit_intercept=False).fit(np.concatenate([known, -known]), sides)
    return bool(len(new)) and float((model.predict(new) == 1).mean()) > HARMFUL


def _shrink(data: DatasetSplits, side: int) -> DatasetSplits:
    """The data with images of that side, none enlarged."""
    return data.resize(side) if side < data.train.images.shape[1] else data
