"""Which samples lie near each other, by the cosine of their vectors; no training is needed.

Pairs above a threshold are searched exactly, yet mostly in fewer numbers: a vector is split into
its part P in the span of the main components and a rest of length r. The product of a and b is then
at most P(a) · P(b) + r(a) r(b), which is a product of vectors with one number more than P. Only
pairs for which that is high enough are compared in full.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from drpl.randomness import rng

CHUNK = 1024  # samples compared with all others at once
MOST = 50_000  # samples that are compared with; of more, so many drawn at random
WIDTH = 128  # components that long vectors are compared in first
FITTED = 4096  # samples that components are found by
ROWS, COLUMNS = 2048, 8192  # of a table of products: as much as caches and memory like
DENSE = 0.02  # share of a table from which on a whole product costs less than single pairs
SLACK = 1e-3  # of cosines, for rounding


def vote_by_neighbours(vectors: Tensor, labels: Tensor, classes: int, count: int) -> Tensor:
    """The share of each label among the nearest others of every sample, by cosine. [N, C]"""
    _, near = find_nearest(normalize(vectors.float()), count)
    return one_hot(labels, classes).float()[near].mean(1)


def find_nearest(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Products with, and numbers of, the nearest others of every row [N, D]. Both [N, count]

    There are fewer in small sets. Of more than `MOST` rows so many are compared with, and by their
    main components alone.
    """
    number = torch.arange(len(unit))
    pool = number
    if len(number) > MOST:
        unit = _shorten(unit, _find_basis(unit))[:, :-1]
        pool = torch.randperm(len(number), generator=rng("neighbours"))[:MOST].sort().values
    others = unit[pool].float()
    count = max(1, min(count, len(pool) - 1))
    found = []
    for index in number.split(CHUNK):
        near = unit[index].float() @ others.T
        near[index[:, None] == pool] = -torch.inf  # not itself
        found.append(near.topk(count))
    return torch.cat([values for values, _ in found]), pool[torch.cat([at for _, at in found])]


def find_pairs(
    vectors: Tensor, threshold: float, most: int, others: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Pairs of rows [P, 2] whose products [P] reach the threshold, highest first.

    `vectors` are [N, D], of unit length if products are to be cosines; with `others` the second of
    a pair is taken from there, another view of the same N samples. Of each row the `most` nearest
    among those that come after it are taken, so that a thousand equal images are not a million
    pairs.
    """
    others = vectors if others is None else others
    basis = _find_basis(vectors)
    short = _shorten(vectors, basis)
    table = _Table(vectors, short, others, short if others is vectors else _shorten(others, basis))
    pairs, cosines = [], []
    for rows in torch.arange(len(vectors)).split(ROWS):
        parts = [
            table.compare(rows, columns, threshold, most)
            for columns in torch.arange(int(rows[0]), len(vectors)).split(COLUMNS)
        ]
        mine, near = torch.cat([p for p, _ in parts]), torch.cat([c for _, c in parts])
        kept = _rank_in_row(mine[:, 0], near) < most
        pairs.append(mine[kept])
        cosines.append(near[kept])
    every = torch.cat(cosines)
    order = every.argsort(descending=True, stable=True)
    return torch.cat(pairs)[order], every[order].clamp(max=1)


def _find_basis(vectors: Tensor) -> Tensor:
    """The main components of vectors, as columns. [D, K]"""
    index = torch.linspace(0, len(vectors) - 1, min(len(vectors), FITTED)).long()
    some = vectors[index].double()
    products = some.T @ some / len(some)
    # A little on the diagonal, for eigh fails where many eigenvalues are equal.
    products += 1e-9 * torch.diag(torch.linspace(1, 2, len(products), dtype=torch.float64))
    return torch.linalg.eigh(products)[1][:, -WIDTH:].float()  # the largest come last


def _shorten(vectors: Tensor, basis: Tensor) -> Tensor:
    """Vectors by their main components and, last, the length of the rest. [N, K + 1]"""
    parts = []
    for rows in vectors.split(ROWS):
        full = rows.float()
        inside = full @ basis
        rest = (full.square().sum(1) - inside.square().sum(1)).clamp(min=0).sqrt()
        parts.append(torch.cat([inside, rest[:, None]], 1))
    return torch.cat(parts)


class _Table(NamedTuple):
    """The products of all rows with all others, of which parts are looked at."""

    left: Tensor  # [N, D]
    short_left: Tensor  # [N, K + 1], whose products are bounds of those
    right: Tensor
    short_right: Tensor

    def compare(
        self, rows: Tensor, columns: Tensor, threshold: float, most: int
    ) -> tuple[Tensor, Tensor]:
        """The pairs of a part of the table that reach the threshold, and their products."""
        bound = self.short_left[rows] @ self.short_right[columns].T
        busy = (bound.amax(1) >= threshold - SLACK).nonzero().flatten()
        rows, bound = rows[busy], bound[busy]
        likely = (bound >= threshold - SLACK) & (rows[:, None] < columns)
        if int(likely.sum()) > DENSE * likely.numel():
            near = self.left[rows].float() @ self.right[columns].float().T
            near[rows[:, None] >= columns] = -torch.inf
            values, at = near.topk(min(most, len(columns)))
            pairs = torch.stack([rows[:, None].expand_as(at), columns[at]], 2).flatten(0, 1)
            products = values.flatten()
        else:
            i, j = likely.nonzero(as_tuple=True)
            pairs = torch.stack([rows[i], columns[j]], 1)
            parts = [
                (self.left[part[:, 0]].float() * self.right[part[:, 1]]).sum(1)
                for part in pairs.split(ROWS)
            ]
            products = torch.cat(parts)
        kept = products >= threshold
        return pairs[kept], products[kept]


def _rank_in_row(rows: Tensor, values: Tensor) -> Tensor:
    """The place of each value among those of its row, 0 for the highest. [P]"""
    order = values.argsort(descending=True, stable=True)
    order = order[rows[order].argsort(stable=True)]
    _, counts = rows.unique(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - starts
    return rank
