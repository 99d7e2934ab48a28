"""What an algorithm is: a module that yields its losses."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from drpl.training.feed import Feed

Terms = Mapping[str, Tensor]  # the loss is their sum; each gets a curve in the report
Steps = Iterator[Terms]  # one mapping for each gradient step


class Stage(nn.Module):
    """One optimiser's worth of training.

    Parameters are what SGD moves; buffers are what the algorithm remembers of each sample. All
    that an epoch changes is in one or the other, so the checkpoint is the `state_dict`.
    """

    net: nn.Module  # what predicts

    def __init__(self, net: nn.Module | None = None, **buffers: Tensor | None) -> None:
        super().__init__()
        if net is not None:
            self.net = net
        for name, table in buffers.items():
            self.register_buffer(name, table)

    def epoch(self, feed: Feed) -> Steps:
        """Yield one mapping of loss terms per gradient step.

        When a `yield` returns, the step has been taken. Never yield inside `torch.no_grad()`.
        """
        raise NotImplementedError

    def classify(self, feed: Feed, x: Tensor, i: Tensor, net: nn.Module | None = None) -> Tensor:
        """The logits of the stage's network, or of one of several, for a batch. [B, C]

        What it predicts is recorded as evidence.
        """
        logits: Tensor = (self.net if net is None else net)(x)
        feed.record(i, logits.softmax(1))
        return logits


class PredictionHistory(Stage):
    """A stage that averages what it predicted in its last epochs."""

    recent: Tensor  # [W, N, C]
    visited: Tensor  # [W, N] bool

    def __init__(self, net: nn.Module, samples: int, classes: int, window: int) -> None:
        visited = torch.zeros(window, samples, dtype=torch.bool)
        super().__init__(net, recent=torch.zeros(window, samples, classes), visited=visited)

    def remember(self, feed: Feed) -> None:
        """Put the predictions that the feed recorded in the place of the oldest epoch's."""
        slot = feed.epoch % len(self.recent)
        self.recent[slot], self.visited[slot] = feed.predictions

    def mean_recent(self) -> tuple[Tensor, Tensor]:
        """The mean of every sample's recent predictions [N, C], and who has any [N]."""
        times = self.visited.sum(0)
        return self.recent.sum(0) / times.clamp(min=1)[:, None], times > 0
