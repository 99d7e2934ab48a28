"""What an algorithm is: a module that yields its losses."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from drpl.distributed import all_reduce_sum
from drpl.training.feed import Feed

Terms = Mapping[str, Tensor]  # the loss is their sum; each gets a curve in the report


class Stage(nn.Module):
    """One optimiser's worth of training.

    Parameters are what SGD moves; buffers are what the algorithm remembers of each sample. All
    that an epoch changes is in one or the other, so the checkpoint is the `state_dict`.
    """

    net: nn.Module  # what predicts

    def epoch(self, feed: Feed) -> Iterator[Terms]:
        """Yield one mapping of loss terms per gradient step.

        When a `yield` returns, the step has been taken. Never yield inside `torch.no_grad()`.
        """
        raise NotImplementedError

    def classify(self, feed: Feed, x: Tensor, i: Tensor) -> Tensor:
        """The network's logits for a batch; what it predicts is recorded as evidence. [B, C]"""
        logits: Tensor = self.net(x)
        feed.record(i, logits.softmax(1))
        return logits


class TableUpdate:
    """New rows of a per-sample table, collected over one epoch on all processes.

    Tables are read during an epoch and replaced at its end. A row that no batch visited keeps
    its old value.
    """

    def __init__(self, like: Tensor) -> None:
        self.rows = torch.zeros_like(like)  # [N, C]
        self.visited = torch.zeros(len(like), dtype=torch.bool, device=like.device)  # [N]

    def __setitem__(self, i: Tensor, rows: Tensor) -> None:
        self.rows[i] = rows.detach().to(self.rows.dtype)
        self.visited[i] = True

    def apply(self, table: Tensor) -> None:
        """Put the rows that any process visited into the table."""
        rows, visited = all_reduce_sum(self.rows), all_reduce_sum(self.visited)
        table[visited] = rows[visited]


class PredictionHistory(Stage):
    """A stage that averages what it predicted in its last epochs."""

    recent: Tensor  # [W, N, C]
    visited: Tensor  # [W, N] bool

    def __init__(self, net: nn.Module, samples: int, classes: int, window: int) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("recent", torch.zeros(window, samples, classes))
        self.register_buffer("visited", torch.zeros(window, samples, dtype=torch.bool))

    def remember(self, feed: Feed) -> None:
        """Put the predictions that the feed recorded in the place of the oldest epoch's."""
        slot = feed.epoch % len(self.recent)
        self.recent[slot], self.visited[slot] = feed.predictions

    def mean_recent(self) -> tuple[Tensor, Tensor]:
        """The mean of every sample's recent predictions [N, C], and who has any [N]."""
        times = self.visited.sum(0)
        return self.recent.sum(0) / times.clamp(min=1)[:, None], times > 0
