"""Whether probabilities mean what they say: of labels that are 70 % likely wrong, 70 in 100 are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 10

Floats = NDArray[np.float64]


def measure_reliability(p_noisy: Floats, wrong: NDArray[Any], bins: int = BINS) -> Floats:
    """For each bin of equal width: mean probability, share of wrong labels, samples. [bins, 3]

    Both shares are NaN where a bin is empty.
    """
    number = np.minimum((np.asarray(p_noisy) * bins).astype(int), bins - 1)
    count = np.bincount(number, minlength=bins)
    with np.errstate(invalid="ignore"):
        believed, true = (
            np.bincount(number, np.asarray(values, float), bins) / count
            for values in (p_noisy, wrong)
        )
    return np.column_stack([believed, true, count])


def calibration_error(p_noisy: Floats, wrong: NDArray[Any], bins: int = BINS) -> float:
    """The expected calibration error: how far both shares are apart, over all samples."""
    believed, true, count = measure_reliability(p_noisy, wrong, bins).T
    return float(np.nansum(np.abs(believed - true) * count) / count.sum())
