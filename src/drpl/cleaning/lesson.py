"""What decisions teach: how much is wrong, how good the list is, and what to look at next.

**How much.** The first decisions are on a stratified sample (see `look`). In stratum h with N_h
samples, k_h of n_h were decided to be wrong, and the share of wrong labels there is

    theta_h ~ Beta(k_h + m p_h, n_h - k_h + m (1 - p_h)),

p_h being the mean of `p_noisy` and m = 1 its weight in decisions, as in Jeffreys' prior, whose p_h
is 1/2 for want of better knowledge. The rate is the sum of N_h theta_h / N, its interval that of
draws of all theta_h. People err too: at the lower end, theta_h is what is left if a share of
ERRING of their decisions is wrong. What was decided on besides the look counts as known.

**Which.** `p_noisy` of the rest is calibrated by a logistic regression on its own log-odds, with a
prior that trusts them as they are (slope 1, intercept 0).

**In which order.** From RERANK decisions on, a logistic regression of the decisions on log-odds,
given class, suggested class and their pair sorts what is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from drpl.cleaning.estimate import Rate
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.look import Floats, Ints, cut_strata
from drpl.cleaning.review.decision_log import Decision
from drpl.randomness import rng

PRIOR = 1.0  # decisions that the networks' opinion is worth
ERRING = 0.05  # share of people's decisions that may be wrong
DRAWS, TAIL = 2000, 0.025
SLOPE, SHIFT = 0.5, 2.0  # standard deviations of the calibration's prior
SURE = 1e-6
RERANK = 50  # decisions after which, and after as many more, the rest is sorted anew
NEXT = 100  # samples whose wrong labels are forecast


@dataclass(frozen=True)
class Lesson:
    """What is known after some decisions."""

    looked: int  # decisions on the look's samples
    decided: int  # on any sample
    rate: Rate  # share of wrong labels among all samples
    precision: Rate | None  # share of them in the list; None if that is empty
    left: Rate  # how many wrong labels nobody has decided on
    upcoming: float  # wrong labels expected among the next NEXT of the list
    p_noisy: Floats  # [N] calibrated, in the order of samples.csv
    order: list[int]  # ids of the list that are undecided, the most doubtful first


class Teacher:
    """Learns from the decisions on a cleaned folder."""

    def __init__(self, cleaned: CleanedFolder) -> None:
        self.samples, self.list = cleaned.samples, cleaned.issues.index
        self.p_noisy = self.samples["p_noisy"].to_numpy(float)
        self.listed = self.samples.index.isin(self.list)
        self.look = self.samples.index.get_indexer(cleaned.look.index)

    @cached_property
    def strata(self) -> Ints:
        """The stratum of every sample."""
        return cut_strata(self.p_noisy, self.listed)

    def learn(self, decisions: Mapping[int, Decision]) -> Lesson:
        """What the decisions that hold say of all samples."""
        known = self.samples.index.get_indexer(pd.Index(list(decisions)))
        given = self.samples["given_label"].to_numpy()
        wrong = np.full(len(given), np.nan)
        for row, decision in zip(known, decisions.values(), strict=True):
            wrong[row] = decision.action != "keep" and decision.label != given[row]
        looked = self.look[np.isfinite(wrong[self.look])]
        p = self.p_noisy
        if len(known):
            p = calibrate(p, known, wrong[known])
        rate, precision = (
            self._estimate(looked, wrong, part) if part.any() else None
            for part in (np.ones_like(self.listed), self.listed)
        )
        assert rate is not None  # noqa: S101  there are samples
        found = float(np.nansum(wrong))
        left = (max(0.0, end * len(p) - found) for end in (rate.value, rate.low, rate.high))
        order = self._sort(p, known, wrong)
        expected = p[self.samples.index.get_indexer(pd.Index(order[:NEXT], dtype="int64"))]
        return Lesson(
            len(looked), len(known), rate, precision, Rate(*left), float(expected.sum()), p, order
        )

    def _estimate(self, looked: Ints, wrong: Floats, part: NDArray[np.bool_]) -> Rate:
        """The rate of a part: what was decided on is known, of the rest the look tells."""
        rate = estimate_by_look(self.strata, self.p_noisy, looked, wrong[looked], part)
        known, size = np.isfinite(wrong) & part, float(part.sum())
        least, most = float(wrong[known].sum()), size - float((1 - wrong[known]).sum())
        ends = (
            min(max(end, least / size), most / size) for end in (rate.value, rate.low, rate.high)
        )
        return Rate(*ends)

    def _sort(self, p: Floats, known: Ints, wrong: Floats) -> list[int]:
        """The undecided of the list, by what the last whole RERANK decisions taught."""
        used = known[: len(known) // RERANK * RERANK]
        scores = p
        if len(used) and 0 < wrong[used].sum() < len(used):
            scores = rank_by_decisions(self.samples, self.p_noisy, used, wrong[used])
        rows = np.flatnonzero(self.listed & ~np.isfinite(wrong))
        return [int(i) for i in self.samples.index[rows[np.argsort(-scores[rows], kind="stable")]]]


def estimate_by_look(
    strata: Ints, p_noisy: Floats, looked: Ints, wrong: Floats, part: NDArray[np.bool_]
) -> Rate:
    """The share of wrong labels among the samples of a part."""
    draws = np.random.default_rng(rng("lesson").initial_seed())
    total, lowest = np.zeros(DRAWS), np.zeros(DRAWS)
    for h in np.unique(strata[part]):
        mine = strata == h
        seen = wrong[strata[looked] == h]
        mean = float(p_noisy[mine].mean())
        a, b = seen.sum() + PRIOR * mean, len(seen) - seen.sum() + PRIOR * (1 - mean)
        theta = draws.beta(max(a, SURE), max(b, SURE), DRAWS)
        total += theta * (mine & part).sum()
        corrected = np.clip((theta - ERRING) / (1 - 2 * ERRING), 0, 1)
        lowest += np.minimum(theta, corrected) * (mine & part).sum()
    low, high = np.quantile(lowest, TAIL), np.quantile(total, 1 - TAIL)
    return Rate(*(float(value / part.sum()) for value in (total.mean(), low, high)))


def calibrate(p_noisy: Floats, decided: Ints, wrong: Floats) -> Floats:
    """`p_noisy` of every sample as the decisions on some correct it."""
    odds = logit(np.clip(p_noisy, SURE, 1 - SURE))

    def loss(weights: Floats) -> float:
        slope, shift = weights
        z = slope * odds[decided] + shift
        prior = ((slope - 1) / SLOPE) ** 2 / 2 + (shift / SHIFT) ** 2 / 2
        return float(np.logaddexp(0, z).sum() - (wrong * z).sum() + prior)

    slope, shift = minimize(loss, np.array([1.0, 0.0])).x
    return np.asarray(expit(slope * odds + shift))


def rank_by_decisions(
    samples: pd.DataFrame, p_noisy: Floats, decided: Ints, wrong: Floats
) -> Floats:
    """How probably wrong each label is, by a small model of the decisions."""
    odds = logit(np.clip(p_noisy, SURE, 1 - SURE))
    given, suggested = samples["given_label"], samples["suggested_label"]
    kinds = pd.concat(
        [given, suggested, given + "\0" + suggested], axis=1, keys=["given", "suggested", "pair"]
    )
    codes = pd.get_dummies(kinds.iloc[decided], dtype=float)  # others tell nothing
    every = pd.get_dummies(kinds, dtype=float).reindex(columns=codes.columns, fill_value=0.0)
    inputs = np.column_stack([odds, every.to_numpy()])
    model = LogisticRegression(C=0.3, max_iter=1000).fit(inputs[decided], wrong)
    return np.asarray(model.predict_proba(inputs)[:, 1])
