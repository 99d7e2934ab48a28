"""How probably each label is wrong, by predictions and the labels that contradict them.

The scores s_i of a classifier say that the true class of sample i is k with probability

    p_ik = softmax(t s_i)_k

Its label is that class with probability 1 - n, and otherwise another one, drawn from row k of a
matrix W of confusions. So a label y_i is seen with probability

    (1 - n) p_iy + n sum_k p_ik W_ky

What differs from the prediction of a sure classifier can only be noise, what differs from that of
an unsure one may be the classifier's own error. How noise goes on from the sure to the unsure
samples cannot be seen: the model says that it stays as it is. Where people take hard images for
others, more than n is wrong, and `cleaning.estimate` says how much more it may be. t and n are
found by maximum likelihood, W is counted among the surest.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor

from drpl.randomness import rng

SURE = 0.4  # share of the samples, the surest ones, whose contradictions tell the confusions
PRIOR = 20.0  # contradictions that a row is worth which is known before
ENOUGH = 20_000  # samples that the model is fitted to
START = (1.0, -3.0)  # log of t times the spread of the scores; log-odds of n
TINY = 1e-12


@dataclass(frozen=True)
class NoiseModel:
    """The model of some labels, fitted."""

    scores: Tensor  # [N, C]
    labels: Tensor  # [N]
    confusions: Tensor  # [C, C] true class, given label; the diagonal is 0
    temperature: float
    rate: float  # n

    @classmethod
    def fit(cls, scores: Tensor, labels: Tensor) -> "NoiseModel":
        """The most likely model of the labels."""
        scores = scores.double()
        confusions = count_confusions(
            measure_lead(scores), scores.argmax(1), labels, spread_evenly(scores.shape[1])
        )
        return cls.fit_rate(scores, labels, confusions)

    @classmethod
    def fit_rate(cls, scores: Tensor, labels: Tensor, confusions: Tensor) -> "NoiseModel":
        """The most likely temperature and rate, where the confusions are known."""
        some = torch.randperm(len(labels), generator=rng("noise model"))[:ENOUGH]
        spread = float(scores.std().clamp(min=TINY))

        def build(index: Tensor, weights: NDArray[np.float64]) -> NoiseModel:
            t, rate = float(np.exp(weights[0])) / spread, float(expit(weights[1]))
            return cls(scores[index], labels[index], confusions, t, rate)

        found = minimize(
            lambda weights: build(some, weights).surprise,
            np.array(START),
            method="Nelder-Mead",
            options={"maxiter": 400, "xatol": 1e-3, "fatol": 1e-6},
        )
        return build(torch.arange(len(labels)), found.x)

    @property
    def probs(self) -> Tensor:
        """Of the true classes, before one knows the labels. [N, C]"""
        return (self.temperature * self.scores).softmax(1)

    def _explain(self) -> tuple[Tensor, Tensor]:
        """How probable each label is as a right one and as a wrong one. [N]"""
        probs = self.probs
        right = probs.gather(1, self.labels[:, None]).squeeze(1)
        wrong = (probs * self.confusions.T[self.labels]).sum(1)
        return (1 - self.rate) * right, self.rate * wrong

    @property
    def surprise(self) -> float:
        """The mean negative log-likelihood of the labels."""
        right, wrong = self._explain()
        return -float((right + wrong).clamp(min=TINY).log().mean())

    @property
    def posterior(self) -> Tensor:
        """The probability that each label is wrong. [N]"""
        right, wrong = self._explain()
        return wrong / (right + wrong).clamp(min=TINY)

    def guess_mistakes(self) -> Tensor:
        """The confusions again, where unknown not uniform but of classes that look alike. [C, C]

        That is how people err. A class looks like another as far as its samples are taken for it.
        """
        classes = self.scores.shape[1]
        alike = torch.zeros(classes, classes, dtype=torch.float64)
        alike.index_add_(0, self.labels, self.probs).fill_diagonal_(0)
        total = alike.sum(1, keepdim=True)
        alike = torch.where(total > 0, alike / total.clamp(min=TINY), spread_evenly(classes))
        lead, predicted = measure_lead(self.scores), self.scores.argmax(1)
        return count_confusions(lead, predicted, self.labels, alike)

    def of(self, scores: Tensor, labels: Tensor) -> "NoiseModel":
        """The same model of other labels."""
        return replace(self, scores=scores.double(), labels=labels)


def rank_doubt(scores: Tensor) -> Tensor:
    """Ranks from 0, where the first class is farthest ahead of the second, to 1. [N]"""
    return _rank_lead(measure_lead(scores))


def measure_lead(scores: Tensor) -> Tensor:
    """How far the first class is ahead of the second. [N]"""
    first, at = scores.max(1, keepdim=True)
    second = scores.scatter(1, at, -torch.inf).amax(1)  # topk takes five times as long
    return first.squeeze(1) - second


def _rank_lead(lead: Tensor) -> Tensor:
    order = lead.argsort(descending=True, stable=True)
    ranks = torch.empty(len(order), dtype=torch.float64)
    ranks[order] = torch.linspace(0, 1, len(order), dtype=torch.float64)
    return ranks


def count_confusions(lead: Tensor, predicted: Tensor, labels: Tensor, prior: Tensor) -> Tensor:
    """What the surest samples of each class are called if not by it, rows summing to 1. [C, C]"""
    classes, sure = len(prior), _rank_lead(lead) <= SURE
    cells = predicted[sure] * classes + labels[sure]
    counts = torch.bincount(cells, minlength=classes**2).reshape(classes, classes).double()
    counts.fill_diagonal_(0)
    return (counts + PRIOR * prior) / (counts.sum(1, keepdim=True) + PRIOR)


def spread_evenly(classes: int) -> Tensor:
    """Confusions of which nothing is known. [C, C]"""
    return (1 - torch.eye(classes, dtype=torch.float64)) / (classes - 1)
