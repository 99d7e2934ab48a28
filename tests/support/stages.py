"""A linear network and a few vectors: enough to check one epoch of a stage by hand."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from drpl.data.images import TensorImages
from drpl.data.strong import StrongVectors
from drpl.data.transforms import Normalise
from drpl.randomness import rng
from drpl.training import feed as feeding
from drpl.training.feed import Feed
from drpl.training.stage import Stage

S = TypeVar("S", bound=Stage)
Steps = list[dict[str, float]]


def make_feed(epoch: int, batch: int = 24, samples: int = 24) -> Feed:
    """Vectors of four numbers, the same in every epoch; a strong view has noise."""
    images = TensorImages(torch.randn(samples, 4, generator=rng("x")))
    view = Normalise((0.0,) * 4, (1.0,) * 4)
    strong = StrongVectors(view, torch.ones(4), 0.5, 0.1)
    return Feed(images, view, view, batch, epoch, (1, "test"), torch.device("cpu"), strong)


def make_net(seed: int = 1) -> nn.Module:
    """Of three classes."""
    torch.manual_seed(seed)
    return nn.Linear(4, 3)


def scale_weights(stage: Stage, factor: float) -> None:
    """As if an optimiser had changed them."""
    with torch.no_grad():
        next(stage.parameters()).mul_(factor)


def first_batch(epoch: int, samples: int = 24) -> tuple[Tensor, Tensor]:
    """What an epoch in one batch shows: the vectors and the samples' numbers."""
    x, i = next(iter(make_feed(epoch, samples, samples)()))
    return x, i


def pass_epoch(stage: Stage, feed: Feed, processes: int = 1) -> Steps:
    """The terms of an epoch whose gradients are taken but not followed."""
    steps = []
    stage.train()
    for terms in stage.epoch(feed):
        stage.zero_grad()
        (torch.stack(list(terms.values())).sum() / processes).backward()
        steps.append({name: term.item() for name, term in terms.items()})
    return steps


def pass_halves(make: Callable[[], S], monkeypatch: pytest.MonkeyPatch) -> Iterator[S]:
    """Epoch 2 in batches of 12 on two processes, each of which sees half of every batch.

    The stage as either has it; tables are not summed, so each has changed its own rows.
    """
    monkeypatch.setattr(feeding, "world", lambda: 2)
    for number in (0, 1):
        monkeypatch.setattr(feeding, "rank", lambda number=number: number)
        part = make()
        pass_epoch(part, make_feed(2, 12), processes=2)
        yield part
