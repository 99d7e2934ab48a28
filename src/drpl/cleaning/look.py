"""The look at 40: which samples tell most about how much is wrong.

Samples are sorted by `p_noisy` and cut into strata of equal doubt, the sum of sqrt(p (1 - p)): that
is where a decision lowers the variance of the estimated rate most (Neyman's allocation). As many
are drawn from each stratum, so the share of wrong labels among them estimates that of the
stratum, whatever the networks believe. The list of issues and the rest have strata of their own,
so that the precision of the list is estimated too.
"""

import numpy as np
from numpy.typing import NDArray

from drpl.randomness import rng

LOOK = 40  # decisions: about two minutes
PER_STRATUM = 5
DOUBT = 0.02  # that every sample is given at least: networks are sure of wrong labels too

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def cut_strata(p_noisy: Floats, listed: NDArray[np.bool_]) -> Ints:
    """The stratum of every sample, numbered from the surest right ones to the surest wrong ones."""
    p = np.clip(p_noisy, DOUBT, 1 - DOUBT)
    doubt = np.sqrt(p * (1 - p))
    strata = np.empty(len(p), np.int64)
    total, first = LOOK // PER_STRATUM, 0
    shares = _share_out(total, float(doubt[listed].sum() / doubt.sum()), listed)
    for part, count in zip((~listed, listed), shares, strict=True):
        index = np.flatnonzero(part)
        index = index[np.argsort(p_noisy[index], kind="stable")]
        weight = np.cumsum(doubt[index])
        if len(index):
            strata[index] = first + np.minimum(count - 1, (weight / weight[-1] * count).astype(int))
        first += count
    return strata


def _share_out(total: int, share: float, listed: NDArray[np.bool_]) -> tuple[int, int]:
    """How many strata the rest and the list get; at least two each, if there are samples."""
    if not listed.any() or listed.all():
        return (0, total) if listed.all() else (total, 0)
    few = min(max(2, round(total * share)), total - 2)
    return total - few, few


def draw_look(strata: Ints, seed: int) -> Ints:
    """Rows of the samples to look at, as many from each stratum, in random order."""
    draws = np.random.default_rng(rng(seed, "look").initial_seed())
    members = (np.flatnonzero(strata == h) for h in np.unique(strata))
    chosen = [draws.choice(rows, min(PER_STRATUM, len(rows)), replace=False) for rows in members]
    return draws.permutation(np.concatenate(chosen))
