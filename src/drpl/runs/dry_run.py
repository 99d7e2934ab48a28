"""A run before the run: every stage takes a few steps, and the rest is reckoned from them."""

import resource
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from drpl.config.compose import Common
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.sources import with_ood
from drpl.detection.evidence import Evidence
from drpl.detection.split import Split
from drpl.noise.inject import corrupt
from drpl.runs.display import Display
from drpl.runs.execute import (
    Method,
    as_data,
    choose_device,
    prepare,
    preset_names,
    suited,
)
from drpl.runs.run import Machine, Run
from drpl.training.evaluate import predict
from drpl.training.feed import Feed
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage

S = TypeVar("S", bound=Stage)
STEPS = 4  # rehearsed in each stage; the quickest counts, as the first ones warm up
FORWARD = 1 / 3  # of a step's work is its forward pass
FEW, PIXELS = 16, 1 << 16  # images in a rehearsed step on a CPU: at least, and up to these pixels


# Seconds per image and per look at the test set, by stage, network, width and batch: what was
# measured for one preset serves the others.
Speeds = dict[tuple[str, str, int, int], tuple[float, float]]


@dataclass(frozen=True)
class StagePlan:
    """What a stage will take."""

    stage: str
    epochs: int
    steps: int  # in each epoch
    batch_size: int
    seconds: float  # of all its epochs and their tests


class ShortFeed(Feed):
    """A few batches of each pass; it counts the images that whole passes would give."""

    planned = 0  # to train on
    looked = 0  # to look at
    steps = STEPS
    classes = 2

    def __call__(
        self, subset: Tensor | None = None, *, views: int = 1, batch_size: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """The first batches of a pass."""
        self.planned += len(self.images) if subset is None else len(subset)
        return self._brief(subset, views, batch_size)

    def forever(
        self, subset: Tensor, *, views: int = 1, batch_size: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Its steps are those of the pass that it is walked beside, and counted there."""
        return cycle(list(self._brief(subset, views, batch_size)))

    def _brief(
        self, subset: Tensor | None, views: int, batch_size: int | None
    ) -> Iterator[tuple[Tensor, ...]]:
        smaller = None if batch_size is None else min(batch_size, self.batch_size)
        return islice(super().__call__(subset, views=views, batch_size=smaller), self.steps)

    def look(self, net: nn.Module, *, augmented: bool = False) -> Tensor:
        """Nobody looks; the predictions are invented."""
        self.looked += len(self.images)
        invented = torch.randn(len(self.images), self.classes, generator=self.shared_rng)
        return invented.log_softmax(1).to(self.device)


class DryRun(Run):
    """Goes through a method's recipe like a run, but takes few steps and writes nothing."""

    def __init__(self, *arguments: Any, speeds: Speeds) -> None:
        super().__init__(*arguments)
        self.plan: list[StagePlan] = []
        self.speeds = speeds

    def fit(self, name: str, stage: S, schedule: Schedule, *, best: bool = False) -> S:
        """A few steps, from which the whole stage is reckoned."""
        stage.to(self._machine.device).train()
        batch = min(schedule.batch_size, self._affordable())
        key = (self._seed, name)
        # The last epoch: what a stage does in the end, it does in most of its epochs.
        feed = ShortFeed(
            self._images,
            self._view,
            self._still,
            batch,
            schedule.epochs,
            key,
            self._machine.device,
        )
        feed.classes = self.classes
        known = (type(stage).__name__, self._config.network, self._config.width, batch)
        if known in self.speeds:
            feed.steps = 1
            for _ in stage.epoch(feed):  # only to learn how many images its passes have
                pass
        else:
            step = self._step_seconds(stage, schedule, feed)
            self.speeds[known] = step / batch, self._test_seconds(stage.net)
        per_image, test = self.speeds[known]
        steps = ceil(feed.planned / schedule.batch_size)
        looks = feed.looked * per_image * FORWARD
        seconds = schedule.epochs * (feed.planned * per_image + looks + test)
        self.plan.append(StagePlan(name, schedule.epochs, steps, schedule.batch_size, seconds))
        return stage

    def _step_seconds(self, stage: Stage, schedule: Schedule, feed: Feed) -> float:
        """The quickest of a few real steps."""
        optimizer = schedule.optimizer(stage.parameters())
        moments = [self._now()]
        for terms in stage.epoch(feed):
            optimizer.zero_grad()
            torch.stack(list(terms.values())).sum().backward()
            optimizer.step()
            moments.append(self._now())
        return min(after - before for before, after in pairwise(moments))

    def observe(self, name: str, net: nn.Module, *, augmented: bool = True) -> Evidence:
        """Invented losses in two heaps, so that the recipe can go on."""
        count = len(self.labels)
        u, high = torch.rand(count, generator=self.rng(name)), torch.arange(count) % 3 == 0
        losses = torch.where(high, 2 + 3 * u**1.5, 1.2 * u**3)
        evenly = torch.full((count, self.classes), 1 / self.classes)
        return Evidence(name, losses[None], -losses[None], evenly)

    def keep_evidence(self, evidence: Evidence) -> Evidence:
        """Nothing is kept."""
        return evidence

    def keep(self, split: Split) -> Split:
        """Nothing is kept."""
        return split

    def _affordable(self) -> int:
        """Images for a step that takes no long time; a GPU takes the whole batch at once."""
        if self._machine.device.type == "cuda" or len(self._images.shape) == 1:
            return sys.maxsize
        _, height, width = self._images.shape
        return max(FEW, PIXELS // (height * width))

    def _test_seconds(self, net: nn.Module) -> float:
        """How long a look at the test set takes."""
        if self._test is None:
            return 0.0
        few = TensorImages(self._test.images.load(torch.arange(min(FEW, len(self._test)))))
        moments = [self._now()]
        for _ in range(2):
            predict(net, few, self._still, self._machine.device)
            moments.append(self._now())
        return min(b - a for a, b in pairwise(moments)) / len(few) * len(self._test)

    def _now(self) -> float:
        if self._machine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def peak_memory(device: torch.device) -> int:
    """Bytes that this process has needed at most, on the GPU if it uses one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True)
class Plan:
    """What a run would take on this machine, measured on a few steps."""

    stages: list[StagePlan]
    memory: int  # bytes at the peak

    @property
    def seconds(self) -> float:
        """The whole run."""
        return sum(stage.seconds for stage in self.stages)


def dry_run(
    data: str | DatasetSplits | Dataset,
    *,
    method: str | Method = "drpl",
    config: Common | None = None,
    noise: str | None = None,
    ood: str | DatasetSplits | Dataset | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Iterable[str] = (),
    seed: int = 1,
    device: str | None = None,
    goal: str = "train",
    speeds: Speeds | None = None,
) -> Plan:
    """Go through a method on a data set without training it: stages, steps, time and memory."""
    loaded = with_ood(as_data(data), ood)
    asked = suited(settings, preset, method, loaded)
    recipe = prepare(method, config, preset_names(preset, loaded), asked)
    loaded, _ = corrupt(loaded, noise, seed, confusion)
    machine = Machine(choose_device(device))
    with Display(quiet=True) as display:
        truth = loaded.train.truth if recipe.oracle else None
        arguments = (loaded, recipe.config, seed, Path(), machine, display, None, truth)
        rehearsal = DryRun(*arguments, speeds={} if speeds is None else speeds)
        recipe.towards(goal)(rehearsal, recipe.config)
    return Plan(rehearsal.plan, peak_memory(machine.device))
