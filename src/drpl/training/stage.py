"""What an algorithm is: a module that yields its losses."""

from collections.abc import Callable, Iterator, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from drpl.training.feed import Feed
from drpl.training.tables import fits_memory, is_mapped, make_table, split_rows

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

    def list_taught(self) -> Tensor | None:
        """The class that each sample is taught now [N]; None if a stage has no table of targets.

        By default it is the most probable one of the buffer `targets` [N, C], and -1 where all are
        alike.
        """
        targets = self._buffers.get("targets")
        if targets is None:
            return None
        taught = torch.empty(len(targets), dtype=torch.int64, device=targets.device)
        for rows in split_rows(len(targets), targets):
            (highest, top), lowest = targets[rows].max(1), targets[rows].amin(1)
            taught[rows] = torch.where(highest > lowest, top, -1)
        return taught

    def classify(self, feed: Feed, x: Tensor, i: Tensor, net: nn.Module | None = None) -> Tensor:
        """The logits of the stage's network, or of one of several, for a batch. [B, C]

        What it predicts is recorded as evidence.
        """
        logits: Tensor = (self.net if net is None else net)(x)
        feed.record(i, logits.softmax(1))
        return logits


class PredictionHistory(Stage):
    """A stage that averages what it predicted in its last epochs.

    A history above the budget is kept in half precision, on disk.
    """

    recent: Tensor  # [W, N, C]
    visited: Tensor  # [W, N] bool

    def __init__(self, net: nn.Module, samples: int, classes: int, window: int) -> None:
        shape = window, samples, classes
        precision = torch.float32 if fits_memory(*shape) else torch.float16
        recent = make_table(*shape, dtype=precision)
        visited = torch.zeros(window, samples, dtype=torch.bool)
        super().__init__(net, recent=recent, visited=visited)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move to another device; a mapped history stays where it is."""
        recent = self.recent
        if is_mapped(recent):
            self.recent = torch.empty(0)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if is_mapped(recent):
            self.recent = recent
        return self

    def remember(self, feed: Feed) -> None:
        """Put the predictions that the feed recorded in the place of the oldest epoch's."""
        slot = feed.epoch % len(self.recent)
        probs, self.visited[slot] = feed.predictions
        for rows in split_rows(len(probs), self.recent[slot], probs):
            self.recent[slot, rows] = probs[rows]

    def mean_recent(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Part by part: rows, the mean of their recent predictions [n, C], who has any [n]."""
        for rows in split_rows(self.recent.shape[1], self.recent):
            times = self.visited[:, rows].sum(0)
            total = self.recent[:, rows].sum(0, dtype=torch.float32).to(times.device)
            yield rows, total / times.clamp(min=1)[:, None], times > 0
