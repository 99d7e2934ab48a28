"""The only training loop, and the one step that everything trained goes through."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, optim

from drpl.distributed import agree_on_batchnorm, rank, sum_gradients, world
from drpl.errors import TrainingError
from drpl.randomness import derive
from drpl.training.feed import EpochPredictions, Feed
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Terms
from drpl.training.tables import split_rows


@dataclass(frozen=True)
class Epoch:
    """What is known at the end of an epoch."""

    number: int  # 1, 2, 3, ...
    lr: float
    terms: dict[str, float]  # mean over the epoch's steps
    images: int  # shown to a network
    predictions: EpochPredictions = field(repr=False)
    target_accuracy: float | None = None  # percent of the samples seen as what they were taught

    def to_row(
        self, stage: str, labels: Tensor, accuracy: float | None, seconds: float
    ) -> dict[str, Any]:
        """Its line in the history; `labels` are the given ones, `accuracy` is that of the test."""
        return {
            "stage": stage,
            "epoch": self.number,
            "rate": self.lr,
            "terms": self.terms,
            "accuracy": accuracy,
            "train_accuracy": measure_agreement(self.predictions, labels),
            "target_accuracy": self.target_accuracy,
            "images": self.images,
            "seconds": round(seconds, 3),
        }


def fit(
    stage: Stage,
    open_feed: Callable[[int], Feed],
    schedule: Schedule,
    optimizer: optim.Optimizer,
    done: int = 0,
    *,
    full_precision: bool = False,
) -> Iterator[Epoch]:
    """Train `stage`, yielding after every epoch; `done` epochs lie behind it already."""
    for number in range(done + 1, schedule.epochs + 1):
        yield _fit_epoch(stage, open_feed(number), schedule, optimizer, full_precision)


def _fit_epoch(
    stage: Stage, feed: Feed, schedule: Schedule, optimizer: optim.Optimizer, precise: bool
) -> Epoch:
    """One epoch at its rates, and what is known at its end."""
    group, means = optimizer.param_groups[0], _Means()
    lr = group["lr"] = schedule.lr_at(feed.epoch)
    taught = stage.list_taught()  # before the epoch, which may end with other targets

    def end_step(terms: Terms) -> None:
        means.add(terms)
        group["lr"] = schedule.lr_at(feed.epoch, feed.progress)

    train_epoch(stage, feed, optimizer, end_step, full_precision=precise)
    terms = means.check_finite(stage, feed.epoch)
    agreement = None if taught is None else measure_agreement(feed.predictions, taught)
    return Epoch(feed.epoch, lr, terms, feed.served, feed.predictions, agreement)


def measure_agreement(found: EpochPredictions, labels: Tensor) -> float | None:
    """Percent of the samples that an epoch saw as these labels [N], those without one (-1) aside.

    None if it recorded no prediction.
    """
    labels = labels.to(found.visited.device)
    counted, right = found.visited & (labels >= 0), 0
    if not bool(counted.any()) or not found.probs.shape[1]:
        return None
    for rows in split_rows(len(labels), found.probs):
        agrees = found.probs[rows].argmax(1).to(labels) == labels[rows]
        right += int((agrees & counted[rows]).sum())
    return 100 * right / int(counted.sum())


def train_epoch(
    stage: Stage,
    feed: Feed,
    optimizer: optim.Optimizer,
    on_step: Callable[[Terms], None],
    *,
    full_precision: bool = False,
) -> None:
    """Take every step that the stage asks for; the dry run drives this over a shortened feed."""
    torch.manual_seed(derive(*feed.key, rank()))  # dropout and the like
    stage.train()
    fast = not full_precision and suits_bfloat16(feed.device)
    steps = iter(stage.epoch(feed))

    def advance() -> Terms | None:
        # Each step has an autocast of its own, which keeps the weights that it has once cast.
        with torch.autocast(feed.device.type, torch.bfloat16, enabled=fast):
            return next(steps, None)

    for terms in iter(advance, None):
        step(stage, terms, optimizer)
        on_step(terms)
    agree_on_batchnorm(stage)


def suits_bfloat16(device: torch.device) -> bool:
    """Only GPUs with hardware for it; on CPUs it is slower, or not there at all."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def step(stage: Stage, terms: Terms, optimizer: optim.Optimizer) -> None:
    """One gradient step on the sum of the terms, the same on every process."""
    if not torch.is_grad_enabled():
        # A no_grad held over a yield reaches the loop and would silently stop all learning.
        raise TrainingError(
            f"{type(stage).__name__}.epoch yielded inside torch.no_grad(); "
            "close the block before the yield"
        )
    optimizer.zero_grad()
    loss = torch.stack([term.float() for term in terms.values()]).sum()
    # Gradients are summed over processes: averaging them afterwards would be wrong for those that
    # are not the optimiser's, such as the gradients of learnable labels.
    (loss / world()).backward()
    sum_gradients(stage.parameters())
    optimizer.step()


class _Means:
    """Running sums of the loss terms; they stay on the device until the epoch ends."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.steps: dict[str, int] = {}

    def add(self, terms: Terms) -> None:
        for name, term in terms.items():
            self.sums[name] = self.sums.get(name, 0) + term.detach().float()
            self.steps[name] = self.steps.get(name, 0) + 1

    def check_finite(self, stage: Stage, epoch: int) -> dict[str, float]:
        """The means, or an error if training has diverged."""
        means = {name: float(total) / self.steps[name] for name, total in self.sums.items()}
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise TrainingError(
                    f"{type(stage).__name__} diverged: {name!r} is {mean} in epoch {epoch}; "
                    "lower the learning rates of its schedule"
                )
        return means
