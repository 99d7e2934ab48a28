"""Clusters of features that no label has shaped: clean, of another class, or of none (SNCF).

Albert et al., ECCV 2022: a graph of nearest neighbours, of which the smoothest eigenvectors are
coordinates; in these, the samples of each given class are clustered by OPTICS. Samples of no class
lie in the loosest cluster, the clean ones in the others, those of other classes between all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch.nn.functional import normalize

from drpl.detection import optics
from drpl.detection.neighbours import find_nearest
from drpl.detection.split import FEWEST, keep_lowest

CLEAN, OTHER, OUTSIDE = 0, 1, 2  # kinds of samples
COORDINATES = 20
TOLERANCE = 1e-4  # of the eigenvectors
DENSE = 1000  # samples up to which all eigenvectors are found, exactly
USUAL = 500  # samples of a class that sizes are meant for; fewer have them in proportion
ALIKE = 0.8  # clusters whose densities are nearer to each other than this are of one kind
AGAIN = 100  # min_samples for the samples of no class among themselves

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Clustering:
    """How samples are clustered."""

    neighbours: int = 50  # of each sample in the graph
    sizes: tuple[int, ...] = (75, 50, 25)  # min_samples of OPTICS, tried in this order
    smallest: int = 75  # samples of a cluster
    cautious: bool = False  # whether doubtful clusters are called clean

    def divide(self, vectors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The kind of each sample, and for those outside the number of its group. [N] each

        A few samples of each class are clean in any case; without them it would be lost. A sample
        outside that is in no cluster is a group of its own.
        """
        kinds, given = self.tell_kinds(vectors, labels), labels.cpu()
        kinds[keep_lowest(kinds, given, int(given.max()) + 1, FEWEST)] = CLEAN
        outside, groups = (kinds == OUTSIDE).nonzero().flatten(), torch.zeros_like(kinds)
        found = self.group_outside(vectors.cpu()[outside])
        alone = len(outside) + torch.arange(len(outside))  # beyond any cluster's number
        groups[outside] = torch.where(found < 0, alone, found)
        return kinds, groups

    def tell_kinds(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The kind of each sample. [N]"""
        unit = normalize(vectors.float().cpu())
        coordinates, given = self.find_coordinates(unit), labels.cpu().numpy()
        kinds = np.zeros(len(given), np.int64)
        for c in np.unique(given):
            mine = np.flatnonzero(given == c)
            kinds[mine] = self.tell_class(coordinates[mine], unit[torch.from_numpy(mine)])
        return torch.from_numpy(kinds)

    def find_coordinates(self, unit: Tensor) -> Floats:
        """Eigenvectors of the twice normalised graph of neighbours. [N, 20]"""
        products, near = find_nearest(unit, self.neighbours)
        rows = np.arange(len(near)).repeat(near.shape[1])
        weights = products.double().clamp(min=0).pow(3).numpy().ravel()
        shape = len(near), len(near)
        graph = csr_array((weights, (rows, near.numpy().ravel())), shape=shape)
        return _find_smoothest(graph + graph.T)

    def tell_class(self, coordinates: Floats, unit: Tensor) -> Ints:
        """The kinds of the samples of one given class. [n]"""
        clusters = self.cluster(coordinates, self.sizes)
        count = clusters.max(initial=-1) + 1
        if count == 0 or (count == 1 and self.cautious):
            return np.zeros(len(clusters), np.int64)
        if count == 1:
            return np.where(clusters < 0, OTHER, CLEAN)
        size = max(2, self._scale(self.sizes[0], len(clusters)))
        loose = np.array([measure_looseness(unit[clusters == k], size) for k in range(count)])
        outside = clusters == loose.argmax()
        kinds = np.where(clusters < 0, OTHER, np.where(outside, OUTSIDE, CLEAN))
        many = outside.sum() > (kinds == CLEAN).sum()
        if self.cautious and (loose.min() >= ALIKE * loose.max() or many):
            return np.zeros_like(kinds)
        return kinds

    def cluster(self, coordinates: Floats, sizes: tuple[int, ...]) -> Ints:
        """The cluster of each sample, -1 for none, by the size that leaves out the fewest. [n]"""
        best: Ints | None = None
        for size in sizes:
            found = self._run_optics(coordinates, size, self.smallest)
            if best is None or best.max() < 1 or _is_better(found, best):
                best = found
        return np.full(len(coordinates), -1) if best is None else best

    def group_outside(self, vectors: Tensor) -> Tensor:
        """The cluster of each sample of no class, among themselves; -1 for none. [n]"""
        if len(vectors) <= COORDINATES:
            return torch.full((len(vectors),), -1)
        coordinates = self.find_coordinates(normalize(vectors.float().cpu()))
        return torch.from_numpy(self._run_optics(coordinates, AGAIN, AGAIN))

    def _run_optics(self, coordinates: Floats, size: int, smallest: int) -> Ints:
        samples, smallest = (
            max(2, self._scale(number, len(coordinates))) for number in (size, smallest)
        )
        if len(coordinates) <= max(samples, smallest):
            return np.full(len(coordinates), -1)
        # Samples without a neighbour have no direction.
        safe = coordinates + 1e-12 * (np.abs(coordinates).sum(1, keepdims=True) == 0)
        return optics.cluster(safe, samples, smallest)

    def _scale(self, number: int, samples: int) -> int:
        return round(number * min(1, samples / USUAL))


def _find_smoothest(graph: Any) -> Floats:
    """Eigenvectors of the largest eigenvalues of the graph, normalised twice. [N, 20]

    The very first, of eigenvalue 1, is known: the square roots of the sums, which say nothing. Its
    eigenvalue is made -1, the least there can be, before the others are looked for: where the
    graph falls into parts, each has the eigenvalue 1, and a solver gives mixtures of their vectors.
    """
    for _ in range(2):
        sums = np.asarray(graph.sum(0)).ravel()
        scale = diags_array(1 / np.sqrt(np.where(sums > 0, sums, 1)))
        graph = scale @ graph @ scale
    first = np.sqrt(sums) / np.sqrt(sums.sum())
    size = len(first)
    count = min(COORDINATES, size - 3)
    if size <= DENSE:
        return np.linalg.eigh(graph.toarray() - 2 * np.outer(first, first))[1][:, -count:]
    rest = LinearOperator(graph.shape, lambda x: graph @ x - 2 * first * (first @ x), dtype=float)
    start = np.random.default_rng(0).normal(size=size)
    vectors: Floats = eigsh(rest, count, which="LA", tol=TOLERANCE, v0=start)[1]
    return vectors


def _is_better(found: Ints, best: Ints) -> bool:
    return bool(found.max() >= 1 and (found < 0).sum() < (best < 0).sum())


def measure_looseness(unit: Tensor, size: int) -> float:
    """The mean distance of a cluster's samples to their nearest ones in it."""
    count = min(size, len(unit)) - 1
    if count < 1:
        return 0.0
    return max(0.0, float(1 - find_nearest(unit, count)[0].double().mean()))
