"""The only training loop."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, optim

from drpl.data.images import Images
from drpl.data.transforms import Transform
from drpl.distributed import agree_on_batchnorm, rank, sum_gradients, world
from drpl.errors import TrainingError
from drpl.randomness import Key, derive
from drpl.training.feed import Feed
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Terms


@dataclass(frozen=True)
class Epoch:
    """What is known at the end of an epoch."""

    number: int  # 1, 2, 3, ...
    rate: float
    terms: dict[str, float]  # mean over the epoch's steps
    images: int  # shown to a network

    def row(self, stage: str, accuracy: float | None, seconds: float) -> dict[str, Any]:
        """Its line in the history."""
        return {
            "stage": stage,
            "epoch": self.number,
            "rate": self.rate,
            "terms": self.terms,
            "accuracy": accuracy,
            "images": self.images,
            "seconds": round(seconds, 3),
        }


def fit(
    stage: Stage,
    images: Images,
    augment: Transform,
    still: Transform,
    schedule: Schedule,
    *,
    key: Key,
    device: torch.device,
    optimizer: optim.SGD,
    done: int = 0,
) -> Iterator[Epoch]:
    """Train `stage`, yielding after every epoch; `done` epochs lie behind it already."""
    for number in range(done + 1, schedule.epochs + 1):
        torch.manual_seed(derive(*key, number, rank()))  # dropout and the like
        rate = optimizer.param_groups[0]["lr"] = schedule.rate(number)
        stage.train()
        means = Means()
        feed = Feed(images, augment, still, schedule.batch_size, number, key, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=good_at_bfloat16(device)):
            for terms in stage.epoch(feed):
                check_gradients_on(stage)
                optimizer.zero_grad()
                loss = torch.stack([term.float() for term in terms.values()]).sum()
                (loss / world()).backward()
                sum_gradients(stage.parameters())
                optimizer.step()
                means.add(terms)
        agree_on_batchnorm(stage)
        yield Epoch(number, rate, means.finite(stage, number), feed.served)


class Means:
    """Running sums of the loss terms; they stay on the device until the epoch ends."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.steps: dict[str, int] = {}

    def add(self, terms: Terms) -> None:
        """Take in one step."""
        for name, term in terms.items():
            self.sums[name] = self.sums.get(name, 0) + term.detach().float()
            self.steps[name] = self.steps.get(name, 0) + 1

    def finite(self, stage: Stage, epoch: int) -> dict[str, float]:
        """The means, or an error if training has diverged."""
        means = {name: float(total) / self.steps[name] for name, total in self.sums.items()}
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise TrainingError(
                    f"{type(stage).__name__} diverged: {name!r} is {mean} in epoch {epoch}; "
                    "lower the learning rates of its schedule"
                )
        return means


def good_at_bfloat16(device: torch.device) -> bool:
    """Only GPUs with hardware for it; on CPUs it is slower, or not there at all."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def check_gradients_on(stage: Stage) -> None:
    """A `no_grad` held over a yield would reach the loop and silently stop all learning."""
    if not torch.is_grad_enabled():
        name = type(stage).__name__
        raise TrainingError(
            f"{name}.epoch yielded inside torch.no_grad(); close the block before the yield"
        )
