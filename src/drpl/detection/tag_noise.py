"""How probably each entry of a multi-label data set is wrong, by predictions that left it out.

For one label, the score s_i says that image i should have it with probability

    p_i = sigmoid(a s_i + b)

The label is missing where it should be with probability m, and is there where it should not be
with probability w. So it is seen with probability

    p_i (1 - m) + (1 - p_i) w

a, b, m and w are the most likely ones, with a prior that is worth a few entries: a label of few
images cannot tell its own rates. Noise is taken to be the same for all images of a label.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from torch import Tensor

PRIOR, USUAL = 20.0, 0.03  # entries that the prior of m and w is worth, and the share it expects
MOST = 0.45  # beyond that, wrong entries would be the rule
TINY = 1e-12


@dataclass(frozen=True)
class TagNoise:
    """The model of one label, fitted."""

    scores: NDArray[np.float64]  # [N]
    given: NDArray[np.bool_]  # [N] which images have the label
    slope: float
    offset: float
    missing: float  # m
    wrong: float  # w

    @classmethod
    def fit(cls, scores: Tensor, given: Tensor) -> "TagNoise":
        """The most likely model of a label."""
        values, tags = scores.double().numpy(), given.numpy()
        spread, middle = max(float(values.std()), TINY), float(values.mean())

        def build(weights: NDArray[np.float64]) -> TagNoise:
            slope = float(np.exp(weights[0])) / spread
            missing, wrong = (MOST * float(expit(weight)) for weight in weights[2:])
            return cls(values, tags, slope, float(weights[1]) - slope * middle, missing, wrong)

        share = float(np.clip(tags.mean(), 0.01, 0.99))
        start = np.array([0.5, logit(share), *[logit(USUAL / MOST)] * 2])
        options = {"maxiter": 1200, "xatol": 1e-3, "fatol": 1e-4}
        found = minimize(lambda w: build(w).surprise, start, method="Nelder-Mead", options=options)
        return build(found.x)

    @property
    def probs(self) -> NDArray[np.float64]:
        """That each image should have the label, before one knows whether it has. [N]"""
        return np.asarray(expit(self.slope * self.scores + self.offset))

    @property
    def surprise(self) -> float:
        """The negative log-likelihood of what is given, with the prior."""
        probs = self.probs
        seen = probs * (1 - self.missing) + (1 - probs) * self.wrong
        likely = np.log(np.where(self.given, seen, 1 - seen).clip(TINY)).sum()
        rates = np.array([self.missing, self.wrong]).clip(TINY)
        prior = PRIOR * (USUAL * np.log(rates) + (1 - USUAL) * np.log(1 - rates)).sum()
        return -float(likely + prior)

    @property
    def posterior(self) -> Tensor:
        """The probability that each entry is wrong. [N]"""
        probs = self.probs
        right = np.where(self.given, probs * (1 - self.missing), (1 - probs) * (1 - self.wrong))
        wrong = np.where(self.given, (1 - probs) * self.wrong, probs * self.missing)
        return torch.from_numpy(wrong / (right + wrong).clip(TINY))
