"""Two Gaussians on the losses, DivideMix's mixture: one of clean samples, one of noisy ones."""

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from drpl.errors import TrainingError


def fit_lower_gaussian(losses: Tensor) -> Tensor:
    """w: the probability of the lower of two Gaussians. [N] -> [N]"""
    if not bool(torch.isfinite(losses).all()):
        raise TrainingError("the losses are not finite: training diverged; lower the rates")
    x = losses.double().cpu().numpy()[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=1)
    with warnings.catch_warnings():  # ten rounds are meant, converged or not
        warnings.simplefilter("ignore", ConvergenceWarning)
        w = mixture.fit(x).predict_proba(x)[:, mixture.means_.argmin()]
    return torch.from_numpy(w).to(losses)
