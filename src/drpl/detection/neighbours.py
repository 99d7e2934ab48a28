"""Which samples lie near each other, by the cosine of their vectors; no training is needed.

Pairs above a threshold are searched exactly, yet mostly in fewer numbers: a vector is split into
its part P in the span of the main components and a rest of length r. The product of a and b is then
at most P(a) · P(b) + r(a) r(b), which is a product of vectors with one number more than P. Only
pairs for which that is high enough are compared in full. The time grows with the square of the
number of samples. Above `EXACT` of them only samples in lists near each other are compared, if
faiss is installed, which finds the lists.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from drpl.randomness import rng

CHUNK = 1024  # samples compared with all others at once
SQUARE = 2048  # samples compared with as many others at once
MOST = 50_000  # samples that are compared with; of more, so many drawn at random
EXACT = 200_000  # samples among which all pairs are looked at
WIDTH = 128  # components that long vectors are compared in first
FITTED = 4096  # samples that components are found by
ROWS, COLUMNS = 512, 4096  # of a table of products: what fits into caches
CELLS = 2**26  # products that are kept at once, where rows are compared with all others
DENSE = 0.02  # share of a table from which on a whole product costs less than single pairs
SLACK = 1e-3  # of cosines, for rounding
PROBED = 8  # lists that a row is compared with, of as many as the root of the samples
LEARNT = 40, 10  # samples of each list, and rounds of k-means, by which their centres are found


def vote_by_neighbours(vectors: Tensor, labels: Tensor, classes: int, count: int) -> Tensor:
    """The share of each label among the nearest others of every sample, by cosine. [N, C]"""
    _, near = find_nearest(normalize(vectors.float()), count)
    return share_labels(labels, near, classes)


def share_labels(labels: Tensor, near: Tensor, classes: int) -> Tensor:
    """The share of each label among the neighbours. [N, C]"""
    shares = torch.zeros(len(near), classes, device=near.device)
    ones = torch.ones(near.shape, device=near.device)
    return shares.scatter_add_(1, labels.to(near.device)[near], ones) / max(1, near.shape[1])


def find_nearest(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Products with, and numbers of, the nearest others of every row [N, D]. Both [N, count]

    There are fewer in small sets, but as many for each row, and all of them are others. Of more
    than `MOST` rows, on GPUs more than `EXACT`, most are found in lists, by their main components;
    without faiss `MOST` rows, drawn at random, are compared with. What is found lies where the rows
    do.
    """
    device, count = unit.device, max(0, min(count, len(unit) - 1))
    if len(unit) <= (MOST if device.type == "cpu" else EXACT):
        return _find_nearest_of_all(unit.float(), count)
    products, near = _find_most_nearest(shorten(unit.cpu())[:, :-1], count)
    return products.to(device), near.to(device)


def _find_most_nearest(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same of many rows in memory: most of the nearest, or the nearest of some."""
    if find_spec("faiss"):
        return search_nearest(unit, count)
    number = torch.arange(len(unit))
    pool = torch.randperm(len(number), generator=rng("neighbours"))[:MOST].sort().values
    others, found = unit[pool], []
    for index in number.split(CHUNK):
        near = unit[index] @ others.T
        near[index[:, None] == pool] = -torch.inf  # not itself
        found.append(near.topk(min(count, MOST - 1)))
    return torch.cat([values for values, _ in found]), pool[torch.cat([at for _, at in found])]


def search_nearest(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Most of the nearest others of every row, those in the nearest lists; as `find_nearest`."""
    import faiss

    count = max(0, min(count, len(unit) - 1))
    rows, most = unit.numpy(), count + 1  # for a row is the nearest to itself
    best = np.full((len(unit), most), -np.inf, dtype=np.float32)
    names = np.full((len(unit), most), -1)  # none yet
    for number, others in _walk_lists(unit, unit):
        mine, members = number.numpy(), np.append(others.numpy(), -1)  # -1 where a list is short
        inside = rows[members[:-1]]
        near, at = faiss.knn(rows[mine], inside, most, metric=faiss.METRIC_INNER_PRODUCT)
        # A row meets a list once, so that none of these is known already.
        both = np.stack([best[mine], near]), np.stack([names[mine], members[at]])
        best[mine], names[mine] = faiss.merge_knn_results(*both, keep_max=True)
    products, found = torch.from_numpy(best), torch.from_numpy(names)
    products[(found < 0) | (found == torch.arange(len(unit))[:, None])] = -torch.inf
    products, order = products.topk(count)
    found = found.gather(1, order)
    # Rows for which lists were too short meet all.
    gaps = (products == -torch.inf).any(1).nonzero().flatten()
    for part in gaps.split(max(1, CELLS // len(unit))):
        table = unit[part] @ unit.T
        table[torch.arange(len(part)), part] = -torch.inf
        products[part], found[part] = table.topk(count)
    return products, found


def _walk_lists(rows: Tensor, others: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Which rows to compare with which others, a list of these at a time.

    Others are parted into lists by the nearest of some centres. A row is compared with the lists of
    the `PROBED` centres that are nearest to it. All rows that a list is for come at once: one
    product of matrices is quicker than as many searches in an index.
    """
    import faiss

    (count, width), (samples, rounds) = others.shape, LEARNT
    lists = max(1, min(int(count**0.5), count // samples))
    means = faiss.Kmeans(width, lists, niter=rounds)
    means.train(others[torch.linspace(0, count - 1, min(count, samples * lists)).long()].numpy())
    centres: Any = means.centroids

    def find_centres(vectors: Tensor, most: int) -> Tensor:
        # By distance, for long centres would draw many to few lists by products.
        _, near = faiss.knn(vectors.numpy(), centres, min(most, lists))
        return torch.from_numpy(near)

    turns = find_centres(rows, PROBED)
    wanted, own = turns.flatten(), turns[:, 0] if rows is others else find_centres(others, 1)[:, 0]
    mine, members = (
        numbers.argsort(stable=True).split(numbers.bincount(minlength=lists).tolist())
        for numbers in (wanted, own)
    )
    for places, inside in zip(mine, members, strict=True):
        if len(places) and len(inside):
            yield places // turns.shape[1], inside


def _find_nearest_of_all(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same where every row is compared with every other; each product serves both of them."""
    device = unit.device
    products = torch.full((len(unit), count), -torch.inf, device=device)
    near = torch.zeros(len(unit), count, dtype=torch.int64, device=device)

    def keep_best(rows: Tensor, columns: Tensor, table: Tensor) -> None:
        values, at = table.topk(min(count, len(columns)))
        both = torch.cat([products[rows], values], 1)
        names = torch.cat([near[rows], columns[at]], 1)
        products[rows], best = both.topk(count)
        near[rows] = names.gather(1, best)

    parts = torch.arange(len(unit), device=device).split(SQUARE)
    for k, rows in enumerate(parts):
        own = (unit[rows] @ unit[rows].T).fill_diagonal_(-torch.inf)  # not itself
        keep_best(rows, rows, own)
        for columns in parts[k + 1 :]:
            table = unit[rows] @ unit[columns].T
            keep_best(rows, columns, table)
            keep_best(columns, rows, table.T.contiguous())  # the best of rows are found faster
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
        return table.search_lists(threshold, most)
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
        self, rows: Tensor, columns: Tensor, threshold: float, most: int, *, either: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The pairs of a part of the table that reach the threshold, and their products.

        The second of a pair comes later, or, with columns that ascend, may come `either` way.
        """
        # The others first, for that table is faster to make, and to find the best of.
        bound = (self.short_right[columns] @ self.short_left[rows].T).T
        if either:
            _hide_own(bound, rows, columns)
        busy = (bound.amax(1) >= threshold - SLACK).nonzero().flatten()
        rows, bound = rows[busy], bound[busy]
        likely = bound >= threshold - SLACK
        if not either:
            likely &= rows[:, None] < columns
        if int(likely.sum()) > DENSE * likely.numel():
            near = self.left[rows].float() @ self.right[columns].float().T
            near[~likely] = -torch.inf
            values, at = near.topk(min(most, len(columns)))
            pairs = torch.stack([rows[:, None].expand_as(at), columns[at]], 2).flatten(0, 1)
            products = values.flatten()
        else:
            i, j = likely.nonzero(as_tuple=True)
            pairs = torch.stack([rows[i], columns[j]], 1)
            products = self._multiply(pairs)
        kept = products >= threshold
        return pairs[kept], products[kept]

    def search_lists(self, threshold: float, most: int) -> tuple[Tensor, Tensor]:
        """Most of the pairs of the whole table that reach the threshold, highest product first."""
        parts = [
            self.compare(some, columns, threshold, most, either=True)
            for rows, columns in _walk_lists(self.short_left, self.short_right)
            for some in rows.split(ROWS)
        ]
        pairs, products = (torch.cat(found) for found in zip(*parts, strict=True))
        kept = _rank_in_row(pairs[:, 0], products) < most
        # Many a pair is found from both sides.
        every, at = pairs[kept].sort(1).values.unique(dim=0, return_inverse=True)
        highest = torch.zeros(len(every)).scatter_reduce_(0, at, products[kept], "amax")
        return _rank(every, highest)

    def _multiply(self, pairs: Tensor) -> Tensor:
        """The products of pairs in full. [P]"""
        parts = [
            (self.left[part[:, 0]].float() * self.right[part[:, 1]]).sum(1)
            for part in pairs.split(ROWS)
        ]
        return torch.cat(parts)


def _hide_own(products: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Set the products of rows with themselves to -inf; the columns ascend."""
    at = torch.searchsorted(columns, rows).clamp(max=len(columns) - 1)
    own = columns[at] == rows
    products[own.nonzero().flatten(), at[own]] = -torch.inf


def _rank_in_row(rows: Tensor, values: Tensor) -> Tensor:
    """The place of each value among those of its row, 0 for the highest. [P]"""
    order = values.argsort(descending=True, stable=True)
    order = order[rows[order].argsort(stable=True)]
    _, counts = rows.unique(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - starts
    return rank
