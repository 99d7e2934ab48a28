"""DSOS (Albert et al., WACV 2022): is a wrong label's image of another class, or of none?

The collision entropy of the mean of prediction and label,

    k_i = -log sum_c ((p_ic + y_ic) / 2)^2

is near 0 where the network agrees with the label, near log 2 where it is sure of another class, and
higher where it is sure of nothing. Samples from log 2 on are noisy; two beta distributions, fitted
to where they lie between the lowest and the highest of them, tell those of another class (lower)
from those of none (higher).
"""

from math import log
from typing import NamedTuple

import torch
from torch import Tensor

from drpl.detection.mixture import EDGE, BetaMixture

LIMIT = log(2)  # of two classes that share all
ROUNDING = 1e-6  # by which a sure prediction of another class may miss it
START = BetaMixture(alpha=(1, 2), beta=(3, 2), weight=(0.5, 0.5))
ROUNDS = 100
NEAR = 0.1  # how far beyond 0 and 1 a mode may lie and still be believed
FEWEST = 4  # noisy samples that a mixture is fitted to


class Kinds(NamedTuple):
    """How probably each sample is noise of either kind; 0 for both where it is clean."""

    other: Tensor  # [N] the image is of another class
    outside: Tensor  # [N] the image is of none


def collision_entropy(probs: Tensor, labels: Tensor) -> Tensor:
    """From 0 to less than log 4. [N]"""
    probs = probs.double()
    own = torch.ones(len(labels), 1, dtype=probs.dtype, device=probs.device)
    return -((probs.scatter_add(1, labels[:, None], own) / 2).square().sum(1)).log()


def tell_kinds(entropies: Tensor) -> Kinds:
    """Tell the kinds of noise by collision entropies. [N] each"""
    noisy = entropies >= LIMIT - ROUNDING
    other, outside = torch.zeros_like(entropies), torch.zeros_like(entropies)
    if int(noisy.sum()) >= FEWEST:
        found = entropies[noisy].double().cpu()
        low, high = found.min(), found.max()
        if high - low > ROUNDING:
            kinds = _tell_noisy((found - low) / (high - low))
            other[noisy], outside[noisy] = (part.to(entropies) for part in kinds)
    return Kinds(other, outside)


def _tell_noisy(x: Tensor) -> Kinds:
    """The kinds of noisy samples, by entropies scaled to [0, 1]."""
    mixture = BetaMixture.fit_scaled(x, start=START, rounds=ROUNDS).examine()
    # As for losses: no higher entropy is ever called less probably of no class.
    rising = x.clamp(EDGE, 1 - EDGE).clamp(*mixture.find_rising())
    posterior = mixture.posterior(rising).nan_to_num(0)
    other_mode, outside_mode = mixture.modes
    outside = posterior if _is_inside(outside_mode) else x
    other = 1 - posterior if _is_inside(other_mode) else (x < 0.5).to(x)
    return Kinds(other, outside)


def _is_inside(mode: float) -> bool:
    return -NEAR < mode < 1 + NEAR
