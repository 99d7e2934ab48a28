"""How many samples of each class a part of the noise takes, and which."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from drpl.data.dataset import Dataset
from drpl.errors import ConfigError


@dataclass(frozen=True)
class Quota:
    """What one part of the noise may take."""

    free: Tensor  # [N] bool, samples that no other part has taken
    counts: Tensor  # [C] int64, how many of each class
    spent: Tensor  # [M] int64, rows of the outside that other parts have used

    def pick(self, labels: Tensor, propensity: Tensor) -> Tensor:
        """In each class its count of free samples, those with the highest propensity."""
        order = propensity.argsort(descending=True, stable=True)
        order = order[self.free[order]]
        members = (order[labels[order] == c] for c in range(len(self.counts)))
        chosen = zip(members, self.counts.tolist(), strict=True)
        return torch.cat([rows[:count] for rows, count in chosen])

    def each(self, labels: Tensor, generator: Generator) -> Iterator[tuple[int, Tensor]]:
        """Class by class its count of free samples, any of them with equal chance."""
        for c, count in enumerate(self.counts.tolist()):
            members = (self.free & (labels == c)).nonzero().flatten()
            order = torch.randperm(len(members), generator=generator)
            yield c, members[order[len(members) - count :]]

    def draw(self, labels: Tensor, chances: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """As `each`, and for each sample a class drawn by the row of its label. [M], [M]"""
        rows, drawn = [], [labels[:0]]
        for c, mine in self.each(labels, generator):
            rows.append(mine)
            if len(mine):
                drawn.append(torch.multinomial(chances[c], len(mine), True, generator=generator))
        return torch.cat(rows), torch.cat(drawn)


def allot(rates: Tensor, dataset: Dataset) -> Tensor:
    """How many samples of each class each part takes: its rounded share. [K, C] int64"""
    total = rates.sum(0)
    if float(total.max()) > 1 + 1e-9:
        c = int(total.argmax())
        raise ConfigError(
            f"the noise would corrupt {float(total[c]):.4g} of class {dataset.classes[c]!r}; "
            "choose rates that sum to at most 1"
        )
    sizes = torch.bincount(dataset.labels, minlength=len(dataset.classes))
    exact = rates * sizes
    counts = exact.round().long()
    for c in (counts.sum(0) > sizes).nonzero().flatten().tolist():
        # Several halves were rounded up: those that gained most give one back.
        excess = int(counts[:, c].sum() - sizes[c])
        counts[(exact - counts)[:, c].argsort(stable=True)[:excess], c] -= 1
    return counts
