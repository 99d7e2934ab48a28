"""A run before the run: every stage takes a few steps of the loop, and the rest is extrapolated."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from math import ceil
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from drpl.data.images import TensorImages
from drpl.detection.evidence import Evidence
from drpl.detection.split import Split
from drpl.randomness import rng
from drpl.runs.driver import make_feed
from drpl.runs.execute import choose_device, make_run
from drpl.runs.experiment import Execution, Experiment
from drpl.runs.machine import check_memory, measure_peak
from drpl.runs.run import Context
from drpl.training.evaluate import predict
from drpl.training.feed import Feed
from drpl.training.loop import train_epoch
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage

STEPS, SECONDS = 4, 0.4  # that are measured in each stage, at least
TRIES = 2  # of which the quicker counts: a busy machine stops everyone now and then
FORWARD = 1 / 3  # of a step's work is its forward pass
FEW, PIXELS = 16, 1 << 16  # images in a step on a CPU: at least, and up to these pixels
TESTED = 256  # images of the test set that are predicted

# Seconds per image, per epoch besides, and per look at the test set, by stage, network, width and
# batch: what was measured for one preset serves the others.
Speeds = dict[tuple[str, str, int, int], tuple[float, float, float]]


@dataclass(frozen=True)
class StagePlan:
    """What a stage will take."""

    stage: str
    epochs: int
    steps: int  # in each epoch
    batch_size: int
    seconds: float  # of all its epochs and their tests


@dataclass(frozen=True)
class Plan:
    """What a run would take on this machine, measured on a few steps."""

    stages: list[StagePlan]
    memory: int  # bytes at the peak

    @property
    def seconds(self) -> float:
        """The whole run."""
        return sum(stage.seconds for stage in self.stages)

    def __str__(self) -> str:
        lines = [f"{'stage':<16}{'epochs':>8}{'steps':>8}{'batch':>7}{'hours':>10}"]
        lines += [
            f"{p.stage:<16}{p.epochs:>8}{p.steps:>8}{p.batch_size:>7}{p.seconds / 3600:>10.3f}"
            for p in self.stages
        ]
        epochs, hours = sum(p.epochs for p in self.stages), self.seconds / 3600
        lines.append(f"{'all':<16}{epochs:>8}{'':>15}{hours:>10.3f}")
        lines.append(f"memory at the peak: {self.memory / 2**30:.2f} GiB")
        lines.append("hours are estimated from a few steps here and now")
        return "\n".join(lines)


def dry_run(
    experiment: Experiment, execution: Execution | None = None, speeds: Speeds | None = None
) -> Plan:
    """Go through an experiment without training it: stages, steps, time and memory."""
    check_memory()
    device = choose_device(execution.device if execution else None)
    context = Context.build(experiment, device)
    driver = DryRunDriver(context, {} if speeds is None else speeds)
    experiment.recipe(make_run(experiment, context, driver), experiment.config)
    return Plan(driver.plan, measure_peak_memory(device))


class DryRunDriver:
    """Goes through a method's recipe like a run, but takes few steps and writes nothing."""

    def __init__(self, context: Context, speeds: Speeds) -> None:
        self.plan: list[StagePlan] = []
        self._context, self._speeds = context, speeds

    def fit(self, name: str, stage: Stage, schedule: Schedule, *, best: bool) -> None:
        """A few steps, from which the whole stage is extrapolated."""
        context = self._context
        batch = min(schedule.batch_size, self._affordable_batch())
        known = (type(stage).__name__, str(context.network), context.width, batch)
        optimizer = schedule.make_optimizer(stage.parameters())
        moments: list[float] = []

        def train(steps: int, seconds: float) -> ShortFeed:
            # The last epoch: what a stage does in the end, it does in most of its epochs.
            feed = make_feed(ShortFeed, context, name, batch, schedule.epochs)
            feed.classes, feed.steps, feed.seconds = context.classes, steps, seconds
            moments[:] = [self._now()]
            train_epoch(
                stage,
                feed,
                optimizer,
                lambda _: moments.append(self._now()),
                full_precision=context.full_precision,
            )
            return feed

        feed = train(1, 0)  # warms up, and shows how many images the passes have
        if known not in self._speeds:
            tries = []
            for _ in range(TRIES):
                train(STEPS, SECONDS / TRIES)
                tries.append(_part_time([*moments, self._now()]))
            step, rest = (min(values) for values in zip(*tries, strict=True))
            self._speeds[known] = step / batch, rest, self._measure_test(stage.net)
        per_image, rest, test = self._speeds[known]
        steps = ceil(feed.planned / schedule.batch_size)
        work = (feed.planned + feed.looked * FORWARD) * per_image
        seconds = schedule.epochs * (work + rest + test)
        self.plan.append(StagePlan(name, schedule.epochs, steps, schedule.batch_size, seconds))

    def observe(self, name: str, net: nn.Module, *, augmented: bool, mirrored: bool) -> Evidence:
        """Made-up losses of two modes, so that the recipe can go on."""
        count, classes = len(self._context.labels), self._context.classes
        u = torch.rand(count, generator=rng(self._context.seed, name))
        high = torch.arange(count) % 3 == 0
        losses = torch.where(high, 2 + 3 * u**1.5, 1.2 * u**3)
        evenly = torch.full((count, classes), 1 / classes)
        return Evidence(name, losses[None], -losses[None], evenly)

    def keep(self, record: Split | Evidence) -> None:
        """Nothing is kept."""

    def _affordable_batch(self) -> int:
        """Images for a step that takes no long time; a GPU takes the whole batch at once."""
        shape = self._context.images.shape
        if self._context.device.type == "cuda" or len(shape) == 1:
            return sys.maxsize
        return max(FEW, PIXELS // (shape[1] * shape[2]))

    def _measure_test(self, net: nn.Module) -> float:
        """How long a look at the test set takes."""
        test, context = self._context.test, self._context
        if test is None:
            return 0.0
        count = min(TESTED, self._affordable_batch(), len(test))
        few = TensorImages(test.images.load(torch.arange(count)))
        moments = [self._now()]
        for _ in range(2):
            predict(net, few, context.eval_transform, context.device)
            moments.append(self._now())
        return min(b - a for a, b in pairwise(moments)) / len(few) * len(test)

    def _now(self) -> float:
        if self._context.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def _part_time(moments: list[float]) -> tuple[float, float]:
    """Seconds of a step, and of what an epoch does before its first and after its last one.

    The moments are: begin, after each step, end.
    """
    gaps = [b - a for a, b in pairwise(moments)]
    first, *steps, last = gaps
    step = median(steps or [first])  # one that was held up tells nothing
    return step, max(0.0, first - step) + last


class ShortFeed(Feed):
    """A few batches of each pass; it counts the images that whole passes would give."""

    planned = 0  # to train on
    looked = 0  # to predict
    steps, seconds = STEPS, 0.0  # of each pass, at least
    classes = 2

    def __call__(
        self,
        subset: Tensor | None = None,
        *,
        views: int = 1,
        strong: int = 0,
        plain: bool = False,
        batch_size: int | None = None,
    ) -> Iterator[tuple[Tensor, ...]]:
        """The first batches of a pass."""
        self.planned += len(self.images) if subset is None else len(subset)
        smaller = min(batch_size or self.batch_size, self.batch_size)
        began = time.perf_counter()
        batches = super().__call__(
            subset, views=views, strong=strong, plain=plain, batch_size=smaller
        )
        for number, batch in enumerate(batches):
            if number >= self.steps and time.perf_counter() - began >= self.seconds:
                return
            yield batch

    def cycle(
        self, subset: Tensor, *, views: int = 1, strong: int = 0, batch_size: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Its steps are those of the pass that it is walked beside, and counted there."""
        self.planned -= len(subset)
        batches = self(subset, views=views, strong=strong, batch_size=batch_size)
        return cycle(list(islice(batches, self.steps)))

    def predict_all(self, net: nn.Module, *, augmented: bool = False) -> Tensor:
        """Nothing is predicted; the answers are made up."""
        self.looked += len(self.images)
        random = torch.randn(len(self.images), self.classes, generator=self.shared_rng)
        return random.log_softmax(1).to(self.device)

    def embed_all(self, net: nn.Module, size: int) -> Tensor:
        """Nothing is embedded, either."""
        self.looked += len(self.images)
        random = torch.randn(len(self.images), size, generator=self.shared_rng)
        return normalize(random).to(self.device)


def measure_peak_memory(device: torch.device) -> int:
    """Bytes that this process has needed at most, on the GPU if it uses one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return measure_peak()
