"""Which samples lie near each other, by the cosine of their vectors; no training is needed.

Pairs above a threshold are searched exactly, yet mostly in fewer numbers: a vector is split into
its part P in the span of the main components and a rest of length r. The product of a and b is then
at most P(a) · P(b) + r(a) r(b), which is a product of vectors with one number more than P. Only
pairs for which that is high enough are compared in full. The time grows with the square of the
number of samples; above `EXACT` of them candidates come from an index of faiss, if it is installed.
"""

from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from drpl.randomness import rng

CHUNK = 1024  # samples compared with all others at once
SQUARE = 2048  # samples compared with as many others at once
MOST = 50_000  # samples that are compared with; of more, so many drawn at random
EXACT = 200_000  # samples among which all pairs are looked at
WIDTH = 128  # components that long vectors are compared in first
FITTED = 4096  # samples that components are found by
ROWS, COLUMNS = 512, 4096  # of a table of products: what fits into caches
DENSE = 0.02  # share of a table from which on a whole product costs less than single pairs
SLACK = 1e-3  # of cosines, for rounding
PROBED = 8  # lists of the index that are looked at, of as many as the root of the samples
LEARNT = 40, 10  # samples of each list, and rounds, by which the index learns where its lists are


def vote_by_neighbours(vectors: Tensor, labels: Tensor, classes: int, count: int) -> Tensor:
    """The share of each label among the nearest others of every sample, by cosine. [N, C]"""
    _, near = find_nearest(normalize(vectors.float()), count)
    return one_hot(labels, classes).float()[near].mean(1)


def find_nearest(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Products with, and numbers of, the nearest others of every row [N, D]. Both [N, count]

    There are fewer in small sets. Of more than `MOST` rows an index of faiss finds most of them by
    their main components; without it so many rows, drawn at random, are compared with.
    """
    number = torch.arange(len(unit))
    if len(number) <= MOST:
        return _find_nearest_of_all(unit.float(), max(1, min(count, len(unit) - 1)))
    unit = shorten(unit)[:, :-1]
    if find_spec("faiss"):
        return _search_nearest(unit, count)
    pool = torch.randperm(len(number), generator=rng("neighbours"))[:MOST].sort().values
    others, found = unit[pool], []
    for index in number.split(CHUNK):
        near = unit[index] @ others.T
        near[index[:, None] == pool] = -torch.inf  # not itself
        found.append(near.topk(min(count, MOST - 1)))
    return torch.cat([values for values, _ in found]), pool[torch.cat([at for _, at in found])]


def _search_nearest(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same by an index, among all rows."""
    index, products, near = build_index(unit), [], []
    for rows in torch.arange(len(unit)).split(COLUMNS):
        values, found = map(torch.from_numpy, index.search(unit[rows].numpy(), count + 1))
        # Itself, and places that the index could not fill, come last.
        values[(found == rows[:, None]) | (found < 0)] = -torch.inf
        best, at = values.topk(count)
        products.append(best)
        near.append(found.gather(1, at).clamp(min=0))
    return torch.cat(products), torch.cat(near)


def build_index(vectors: Tensor) -> Any:
    """An index of faiss over rows, by their products."""
    import faiss

    (count, width), (samples, rounds) = vectors.shape, LEARNT
    lists = max(1, min(int(count**0.5), count // samples))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, lists, faiss.METRIC_INNER_PRODUCT)
    index.nprobe, index.cp.niter = PROBED, rounds
    some = torch.linspace(0, count - 1, min(count, samples * lists)).long()
    index.train(vectors[some].numpy())
    index.add(vectors.numpy())
    return index


def _find_nearest_of_all(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same where every row is compared with every other; each product serves both of them."""
    products = torch.full((len(unit), count), -torch.inf)
    near = torch.zeros(len(unit), count, dtype=torch.int64)

    def keep_best(rows: Tensor, columns: Tensor, table: Tensor) -> None:
        values, at = table.topk(min(count, len(columns)))
        both = torch.cat([products[rows], values], 1)
        names = torch.cat([near[rows], columns[at]], 1)
        products[rows], best = both.topk(count)
        near[rows] = names.gather(1, best)

    parts = torch.arange(len(unit)).split(SQUARE)
    for k, rows in enumerate(parts):
        own = (unit[rows] @ unit[rows].T).fill_diagonal_(-torch.inf)  # not itself
        keep_best(rows, rows, own)
        for columns in parts[k + 1 :]:
            table = unit[rows] @ unit[columns].T
            keep_best(rows, columns, table)
            keep_best(columns, rows, table.T)
    return products, near


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
    short = shorten(vectors, basis)
    table = _Table(vectors, short, others, short if others is vectors else shorten(others, basis))
    if len(vectors) > EXACT and find_spec("faiss"):
        return table.search_index(threshold, most)
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
    return _rank(torch.cat(pairs), torch.cat(cosines))


def _rank(pairs: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """The highest product first."""
    order = products.argsort(descending=True, stable=True)
    return pairs[order], products[order].clamp(max=1)


def _find_basis(vectors: Tensor) -> Tensor:
    """The main components of vectors, as columns. [D, K]"""
    index = torch.linspace(0, len(vectors) - 1, min(len(vectors), FITTED)).long()
    some = vectors[index].double()
    products = some.T @ some / len(some)
    # A little on the diagonal, for eigh fails where many eigenvalues are equal.
    products += 1e-9 * torch.diag(torch.linspace(1, 2, len(products), dtype=torch.float64))
    directions: Tensor = torch.linalg.eigh(products)[1]
    return directions[:, -WIDTH:].float()  # the largest come last


def shorten(vectors: Tensor, basis: Tensor | None = None) -> Tensor:
    """Vectors by their main components and, last, the length of the rest. [N, K + 1]"""
    basis = _find_basis(vectors) if basis is None else basis
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
            products = self._multiply(pairs)
        kept = products >= threshold
        return pairs[kept], products[kept]

    def search_index(self, threshold: float, most: int) -> tuple[Tensor, Tensor]:
        """Most of the pairs of the whole table that reach the threshold, highest product first."""
        index, pairs, products = build_index(self.short_right), [], []
        for rows in torch.arange(len(self.left)).split(COLUMNS):
            _, found = index.search(self.short_left[rows].numpy(), most + 1)
            near = torch.from_numpy(found)
            both = torch.stack([rows[:, None].expand_as(near), near], 2).flatten(0, 1)
            both = both[(both[:, 1] >= 0) & (both[:, 0] != both[:, 1])]
            exact = self._multiply(both)
            pairs.append(both[exact >= threshold])
            products.append(exact[exact >= threshold])
        # Many a pair is found from both sides.
        every, at = torch.cat(pairs).sort(1).values.unique(dim=0, return_inverse=True)
        highest = torch.zeros(len(every)).scatter_reduce_(0, at, torch.cat(products), "amax")
        return _rank(every, highest)

    def _multiply(self, pairs: Tensor) -> Tensor:
        """The products of pairs in full. [P]"""
        parts = [
            (self.left[part[:, 0]].float() * self.right[part[:, 1]]).sum(1)
            for part in pairs.split(ROWS)
        ]
        return torch.cat(parts)


def _rank_in_row(rows: Tensor, values: Tensor) -> Tensor:
    """The place of each value among those of its row, 0 for the highest. [P]"""
    order = values.argsort(descending=True, stable=True)
    order = order[rows[order].argsort(stable=True)]
    _, counts = rows.unique(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - starts
    return rank
