"""Two Gaussians on the losses, DivideMix's mixture: one of clean samples, one of noisy ones."""

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from drpl.distributed import rank, share
from drpl.errors import TrainingError


def lower(scaled: Tensor) -> Tensor:
    """w: the probability of the lower of two Gaussians. [N] -> [N]"""
    if not bool(torch.isfinite(scaled).all()):
        raise TrainingError("the losses are not finite: training diverged; lower the rates")
    x = scaled.double().cpu().numpy()[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=1)
    with warnings.catch_warnings():  # ten rounds are meant, converged or not
        warnings.simplefilter("ignore", ConvergenceWarning)
        w = mixture.fit(x).predict_proba(x)[:, mixture.means_.argmin()]
    # The first process decides: over sets of unequal size the others would wait for ever.
    return share(torch.from_numpy(w).to(scaled) * (rank() == 0))
