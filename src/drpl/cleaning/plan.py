"""How to train on data that nobody knows, within a time: the settings of `drpl clean`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import adaptive_avg_pool2d

from drpl.config.compose import compose
from drpl.config.from_data import batch_size, chosen, schedules
from drpl.data.dataset import DatasetSplits
from drpl.data.images import Images
from drpl.errors import ConfigError
from drpl.methods.drpl import Config
from drpl.randomness import rng
from drpl.runs.dry_run import dry_run
from drpl.training.schedule import Schedule

MARGIN = 0.6  # of the time is planned: a machine has other things to do, and tables are written
SIDES = (64, 48, 32, 24, 16)  # pixels, from the best to the quickest
WIDE = 32  # pixels from which on a network of twice the width is worth its time
BATCH = 64  # images, that the preset's rates are made for
STEPS = 20_000  # of a whole training are enough: the more images, the fewer epochs
LEAST = 0.2  # of the preset's epochs; below that nothing is learnt
UNEQUAL = 3  # times as many samples in the largest class as in the smallest
SHOWN = 2000  # images that are looked at to tell left from right
HARMFUL = 0.65  # share of mirrored images that are told from others: above it mirroring harms
UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Choice:
    """Data in the size in which they are trained, and the settings of DRPL for them."""

    data: DatasetSplits
    preset: str
    settings: tuple[str, ...]
    effort: float  # share of the preset's epochs

    def text(self) -> str:
        """The choice in words."""
        config = compose(Config, "drpl", [self.preset], self.settings)
        shape, epochs = self.data.train.images.shape, sum(s.epochs for s in all_schedules(config))
        size = f"images of {shape[1]} x {shape[2]}" if len(shape) == 3 else f"vectors of {shape[0]}"
        batch = config.final_schedule.batch_size
        words = [size, f"width {config.width}", f"{epochs} epochs", f"batches of {batch}"]
        if len(shape) == 3:
            words.append("mirrored" if config.flip else "not mirrored")
        if config.prior == "estimate":
            words.append("classes of unequal size")
        return ", ".join(words)


def seconds(text: str) -> float:
    """10m, 2h, 90s or 1h30m as seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ConfigError(f"--budget {text}: write a time such as 10m, 2h, 90s or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def within(
    data: DatasetSplits, budget: float, repeats: int, device: str | None
) -> tuple[Choice, float]:
    """The best way to train that takes no longer than `budget` seconds here, and its seconds.

    Where even the quickest takes longer it is that one.
    """
    for choice in choices(data):
        more = {"preset": choice.preset, "settings": choice.settings, "device": device}
        time = dry_run(choice.data, **more).seconds  # type: ignore[arg-type]
        if repeats > 1:
            again = dry_run(choice.data, goal="detect", **more)  # type: ignore[arg-type]
            time += (repeats - 1) * again.seconds
        if time <= MARGIN * budget:
            break
    return choice, time / MARGIN


def choices(data: DatasetSplits) -> Iterator[Choice]:
    """Ways to train DRPL on the data, from the best to the quickest."""
    train = data.train
    shared = ["pool=true"]  # judging by both stages guards against images of no class
    counts = torch.bincount(train.labels)
    if int(counts.max()) > UNEQUAL * int(counts.min()):
        shared.append("prior=estimate")
    shape = train.images.shape
    if len(shape) == 1:
        shared += chosen(data, "drpl")
        for effort in (1.0, 0.5, LEAST):
            yield scale_epochs(data, "vectors", shared, effort)
        return
    shared.append(f"flip={'false' if flipping_harms(train.images) else 'true'}")
    batch = batch_size(len(train), len(train.classes), BATCH, 2 * BATCH)
    epochs = sum(s.epochs for s in all_schedules(compose(Config, "drpl", ["small"], ())))
    effort = min(1.0, max(LEAST, STEPS / (epochs * len(train) / batch)))
    last = data
    for side, width in sizes(shape[1]):
        last = data.resize(side) if side < shape[1] else data
        yield scale_epochs(last, "small", [*shared, f"width={width}"], effort, batch)
    while effort > LEAST:
        effort = max(LEAST, effort / 2)
        yield scale_epochs(last, "small", [*shared, f"width={width}"], effort, batch)


def sizes(side: int) -> Iterator[tuple[int, int]]:
    """Sides of images and widths of networks, none larger than the images are."""
    sides = [side, *(s for s in SIDES if s < side)] if side <= SIDES[0] else SIDES
    for s in sides:
        if s >= WIDE:
            yield s, 32
        if s < WIDE or s == WIDE:
            yield s, 16
    yield sides[-1], 8


def scale_epochs(
    data: DatasetSplits, preset: str, settings: list[str], effort: float, batch: int | None = None
) -> Choice:
    """A preset with a share of its epochs and, for larger batches, as much larger rates."""
    config = compose(Config, "drpl", [preset], settings)
    texts = [
        f"relabel.begin={max(1, round(config.relabel.begin * effort))}",
        f"relabel.window={max(2, round(config.relabel.window * effort))}",
    ]
    for name in schedules(Config):
        schedule: Schedule = getattr(config, name)
        faster = batch / schedule.batch_size if batch else 1
        rates = {1 + round((epoch - 1) * effort): rate * faster for epoch, rate in schedule.rates}
        texts.append(f"{name}.epochs={max(2, round(schedule.epochs * effort))}")
        texts.append(f"{name}.rates={[[epoch, rate] for epoch, rate in rates.items()]}")
        texts.append(f"{name}.batch_size={batch or schedule.batch_size}")
    return Choice(data, preset, (*settings, *texts), effort)


def all_schedules(config: Config) -> list[Schedule]:
    """The schedules of a configuration."""
    return [getattr(config, name) for name in schedules(Config)]


def flipping_harms(images: Images) -> bool:
    """Whether left and right differ, as in writing: then mirrored images teach what is not there.

    A linear classifier tries to tell mirrored images from others by their asymmetry.
    """
    index = torch.randperm(len(images), generator=rng("handed"))[:SHOWN]
    pixels = images.load(index.sort().values).float().mean(1, keepdim=True) / 255
    small = adaptive_avg_pool2d(pixels, min(16, images.shape[1])).squeeze(1)
    odd = (small - small.flip(2))[:, :, : small.shape[2] // 2].flatten(1).numpy()
    shuffled = odd[torch.randperm(len(odd), generator=rng("halves")).numpy()]
    known, new = np.array_split(shuffled, 2)
    sides = np.repeat([1, 0], len(known))
    told = LogisticRegression(fit_intercept=False).fit(np.concatenate([known, -known]), sides)
    return bool(len(new)) and float((told.predict(new) == 1).mean()) > HARMFUL
