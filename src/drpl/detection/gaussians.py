"""Two Gaussians on the losses, DivideMix's mixture: one of clean samples, one of noisy ones."""

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from drpl.errors import TrainingError

BUFFER = 64 * 2**20  # bytes, more than OpenBLAS takes for itself at its first product


def rescale(losses: Tensor) -> Tensor:
    """Between 0, the lowest, and 1, the highest. [N] -> [N]"""
    low, high = losses.aminmax()
    return (losses - low) / (high - low).clamp(min=1e-8)


def fit_lower_gaussian(losses: Tensor) -> Tensor:
    """w: the probability of the lower of two Gaussians. [N] -> [N]"""
    if not bool(torch.isfinite(losses).all()):
        raise TrainingError("the losses are not finite: training diverged; lower the rates")
    # Where OpenBLAS gets no memory it asks for ever; numpy raises MemoryError before that.
    np.empty(BUFFER, np.uint8)
    x = losses.double().cpu().numpy()[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=1)
    with warnings.catch_warnings():  # ten rounds are meant, converged or not
        warnings.simplefilter("ignore", ConvergenceWarning)
        w = mixture.fit(x).predict_proba(x)[:, mixture.means_.argmin()]
    return torch.from_numpy(w).to(losses)


def fit_upper_gaussian(losses: Tensor) -> Tensor:
    """How probably each sample is of the upper of two Gaussians, scaled losses given. [N]

    Never falling with the loss: of two Gaussians, the wider one is also the likelier one far below
    the narrow, and far above it. From the loss that is surest to be of the lower one downwards,
    and from any peak upwards, the value there is kept.
    """
    scaled = rescale(losses)
    order = scaled.argsort(stable=True)
    upper = 1 - fit_lower_gaussian(scaled.double())[order]
    peak = len(upper) - 1 - int(upper.flip(0).argmax())
    trough = int(upper[: peak + 1].argmin())
    upper[:trough] = upper[trough]
    rising = torch.empty_like(upper)
    rising[order] = upper.cummax(0).values
    return rising
