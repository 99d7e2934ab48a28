"""OPTICS: clusters of any shape and density (Ankerst et al., SIGMOD 1999), by cosine distance.

Samples are visited so that each is followed by the one that is reached most easily from all before
it; where that gets steeply harder a cluster ends. The clusters are read off by scikit-learn. Its
way to the order checks its input anew for every sample, which takes most of its time.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import cluster_optics_xi
from sklearn.preprocessing import normalize

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEEP = 0.02  # how steep the border of a cluster is
TABLED = 2**24  # distances that are kept at once
DECIMALS = 15  # to which distances are compared


def cluster(points: Floats, samples: int, smallest: int) -> Ints:
    """The cluster of each point [N, D], -1 for none; clusters within others are told apart.

    `samples` points around one make its place dense; `smallest` of them make a cluster.
    """
    order, reachability, before = visit(points, samples)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal points are 0 apart
        found, _ = cluster_optics_xi(
            reachability=reachability,
            predecessor=before,
            ordering=order,
            min_samples=samples,
            min_cluster_size=smallest,
            xi=STEEP,
        )
    return np.asarray(found, np.int64)


def visit(points: Floats, samples: int) -> tuple[Ints, Floats, Ints]:
    """The order of visits; of each point how far it was to reach, and from which other. [N] each"""
    unit = normalize(points)
    parts = np.array_split(unit, -(-(len(unit) ** 2) // TABLED))
    cores = [np.partition(_measure(part, unit), samples - 1)[:, samples - 1] for part in parts]
    core = np.concatenate(cores)
    reachability, before = np.full(len(unit), np.inf), np.full(len(unit), -1)
    order, waiting = np.empty(len(unit), np.int64), np.full(len(unit), np.inf)
    left = np.ones(len(unit), bool)
    for k in range(len(unit)):
        one = int(waiting.argmin())
        if not left[one]:  # nothing is within reach
            one = int(left.argmax())
        order[k], left[one], waiting[one] = one, False, np.inf
        reach = np.maximum(_measure(unit[one], unit), core[one])
        nearer = left & (reach < reachability)
        reachability[nearer] = waiting[nearer] = reach[nearer]
        before[nearer] = one
    return order, reachability, before


def _measure(some: Floats, unit: Floats) -> Floats:
    """Cosine distances of some points to all."""
    distances: Floats = np.clip(1 - some @ unit.T, 0, 2).round(DECIMALS)
    return distances
