"""The look at 40: a stratified sample that shows how many labels are wrong.

Samples are sorted by `p_noisy` and cut into strata of equal doubt, the sum of sqrt(p (1 - p)), and
equally many are drawn from each: where networks are in doubt, a decision says most about the rate
(Neyman's allocation). The draw is random within a stratum, one sample from each of as many equal
parts by `p_noisy`, so what is decided there estimates its share of wrong labels whatever the
networks believe. The list of issues and the rest have strata of their own, which gives the
precision of the list as well.
"""

import numpy as np
from numpy.typing import NDArray

from drpl.cleaning.folder import CleanedFolder

LOOK = 40  # decisions: about two minutes
PER_STRATUM = 4
DOUBT = 0.01  # that every sample is given at least: networks are sure of wrong labels too

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def cut_strata(p_noisy: Floats, listed: Bools) -> Ints:
    """The stratum of every sample; those of the list follow those of the rest."""
    p = np.clip(p_noisy, DOUBT, 1 - DOUBT)
    doubt = np.sqrt(p * (1 - p))
    strata = np.empty(len(p), np.int64)
    first = 0
    for part, count in zip((~listed, listed), _share_out(doubt, listed), strict=True):
        index = np.flatnonzero(part)
        index = index[np.argsort(p_noisy[index], kind="stable")]
        if len(index):
            reached = np.cumsum(doubt[index])
            reached = (reached - doubt[index] / 2) / reached[-1]  # in the middle of each sample
            strata[index] = first + np.minimum(count - 1, (reached * count).astype(int))
        first += count
    return strata


def _share_out(doubt: Floats, listed: Bools) -> tuple[int, int]:
    """How many strata the rest and the list get: at least two each, where there are samples."""
    total = LOOK // PER_STRATUM
    if not listed.any():
        return total, 0
    if listed.all():
        return 0, total
    few = round(total * float(doubt[listed].sum() / doubt.sum()))
    few = min(max(2, few), total - 2)
    return total - few, few


def draw_look(cleaned: CleanedFolder, seed: int) -> list[int]:
    """Ids of the samples to look at first, in random order."""
    from drpl.randomness import derive  # brings torch, which a review does without

    listed = cleaned.samples.index.isin(cleaned.issues.index)
    p_noisy = cleaned.samples["p_noisy"].to_numpy(float)
    strata = cut_strata(p_noisy, listed)
    draws = np.random.default_rng(derive(seed, "look"))
    chosen = []
    for h in np.unique(strata):
        rows = np.flatnonzero(strata == h)
        rows = rows[np.argsort(p_noisy[rows], kind="stable")]
        parts = np.array_split(rows, min(PER_STRATUM, len(rows)))
        chosen += [draws.choice(part) for part in parts]
    return [int(cleaned.samples.index[row]) for row in draws.permutation(chosen)]
