"""What decisions teach: how many labels are wrong, how good the list is, what to look at next.

**How many.** The look at 40 is a random sample in each of ten strata; `share` makes of it the share
of wrong labels and the precision of the list, with intervals.

**Which.** The log-odds of `p_noisy` are corrected by a logistic regression on all decisions, with a
prior that trusts them as they are (slope 1, shift 0), which expects a slip in LAPSE of them.

**In which order.** After every RERANK decisions, effects of the given class, the suggested class,
their pair and the confidence are learnt and added to the log-odds. Their standard deviation is the
one under which the decisions are most probable (Laplace's approximation of the evidence); if that
explains the decisions hardly better than no effects, the order stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.preprocessing import OneHotEncoder

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.records import EstimateRecord
from drpl.cleaning.review.decision_log import Decision
from drpl.cleaning.review.share import Interval, ShareEstimator
from drpl.cleaning.review.strata import Bools, Floats, Ints, cut_strata
from drpl.files import read_json

ENOUGH = 10  # decisions of the look from which on they say more than the networks do
LAPSE = 0.03  # share of decisions that are slips: one does not turn the order upside down
SLOPE, SHIFT = 0.5, 2.0  # standard deviations of the calibration's prior
STRENGTHS = (0.25, 0.5, 1.0, 2.0)  # standard deviations of the effects that are tried
CONVINCING = 8.0  # by how much the log-evidence of effects must be higher than without
SURE = 1e-6
RERANK = 50  # decisions after which, and after as many more, the rest is sorted anew
NEXT, FEW = 100, 5  # fewer than FEW wrong labels among the NEXT images: a place to stop
POINTS = 60  # of the curve, at most


@dataclass(frozen=True)
class Forecast:
    """What is known after some decisions."""

    looked: int  # decisions on the look's samples
    decided: int  # on any sample
    found: int  # wrong labels among these
    rate: Interval | None  # share of wrong labels among all samples
    precision: Interval | None  # share of them in the list
    sampled: bool  # whether the rate is that of the decisions, not of the networks
    left: Interval | None  # how many wrong labels nobody has decided on
    p_noisy: Floats  # [N] calibrated, in the order of samples.csv
    order: list[int]  # ids of the list that are undecided, the most doubtful first
    ranked: int  # how many decisions this order was learnt from
    curve: list[tuple[int, float]]  # place in that order, wrong labels expected from there on

    @property
    def upcoming(self) -> float | None:
        """How many wrong labels the next images of the list should have."""
        return self.curve[0][1] if self.curve else None


class Forecaster:
    """Learns from the decisions on a cleaned folder."""

    def __init__(self, cleaned: CleanedFolder) -> None:
        self.samples = cleaned.samples
        self.listed: Bools = self.samples.index.isin(cleaned.issues.index)
        self.look: Ints = self.samples.index.get_indexer(cleaned.look.index)
        p_noisy = self.samples["p_noisy"].to_numpy(float)
        self.odds: Floats = logit(np.clip(p_noisy, SURE, 1 - SURE))
        self.first_rate = read_rate(cleaned)
        strata = cut_strata(p_noisy, self.listed)
        self.shares = ShareEstimator(self.odds, strata, self.first_rate)
        self.ranked, self.effects = 0, np.zeros(len(self.samples))
        worst_first = self.samples.index.get_indexer(cleaned.issues.index)
        self.place = np.full(len(self.samples), len(worst_first))  # parts what is equally doubtful
        self.place[worst_first] = np.arange(len(worst_first))

    def learn(self, decisions: Mapping[int, Decision]) -> Forecast:
        """What the decisions that hold, oldest first, say of all samples."""
        rows, wrong = self._find_rows(decisions), self.find_wrong(decisions)
        self._rank(rows, wrong)
        odds = self.odds + self.effects
        slope, shift = _fit(odds[rows], wrong[rows]).weights if len(rows) else (1.0, 0.0)
        p_noisy = expit(slope * odds + shift)
        looked = self.look[np.isfinite(wrong[self.look])]
        rate, precision = self.first_rate, None
        sampled = len(looked) >= min(ENOUGH, len(self.look)) > 0
        if sampled:
            draws = self.shares.draw(wrong, looked)
            rate = self.shares.estimate(draws, wrong, np.ones_like(self.listed))
            if self.listed.any():
                precision = self.shares.estimate(draws, wrong, self.listed)
        found = int(np.nansum(wrong))
        left = rate and Interval(*(max(0.0, end * len(wrong) - found) for end in rate))
        rest = np.flatnonzero(self.listed & ~np.isfinite(wrong))
        rest = rest[np.lexsort((self.place[rest], -odds[rest]))]
        order = [int(number) for number in self.samples.index[rest]]
        return Forecast(
            looked=len(looked),
            decided=len(rows),
            found=found,
            rate=rate,
            precision=precision,
            sampled=sampled,
            left=left,
            p_noisy=p_noisy,
            order=order,
            ranked=self.ranked,
            curve=_forecast_next(p_noisy[rest]),
        )

    def find_wrong(self, decisions: Mapping[int, Decision]) -> Floats:
        """Which given labels were decided to be wrong, NaN where nobody decided. [N]"""
        rows = self._find_rows(decisions)
        given = self.samples["given_label"].to_numpy()[rows]
        pairs = zip(decisions.values(), given, strict=True)
        wrong = np.full(len(self.samples), np.nan)
        wrong[rows] = [d.action != "keep" and d.label != label for d, label in pairs]
        return wrong

    def _find_rows(self, decisions: Mapping[int, Decision]) -> Ints:
        rows: Ints = self.samples.index.get_indexer(pd.Index(list(decisions), dtype="int64"))
        return rows

    def _rank(self, rows: Ints, wrong: Floats) -> None:
        """Learn the order anew, if there are RERANK decisions more, or fewer, than last time."""
        used = rows[: len(rows) // RERANK * RERANK]
        if len(used) != self.ranked:
            self.effects = learn_effects(self.samples, self.odds, used, wrong[used])
            self.ranked = len(used)


def read_rate(cleaned: CleanedFolder) -> Interval | None:
    """The rate that the networks estimated, before anybody looked."""
    path = cleaned.folder / "clean.json"
    if not path.exists():
        return None
    rate = read_json(path, EstimateRecord)["noise rate"]
    return Interval(*(float(rate[name]) for name in Interval._fields))


def _forecast_next(p_noisy: Floats) -> list[tuple[int, float]]:
    """Wrong labels among the NEXT from some places on, of samples in the order of the review."""
    if not len(p_noisy):
        return []
    expected = np.concatenate([[0.0], np.cumsum(p_noisy)])
    step = max(1, len(p_noisy) // POINTS)
    ends = [(k, min(k + NEXT, len(p_noisy))) for k in range(0, len(p_noisy), step)]
    whole = [(k, end) for k, end in ends if end - k == NEXT] or ends[:1]
    return [(k, float(expected[end] - expected[k])) for k, end in whole]


def learn_effects(samples: pd.DataFrame, odds: Floats, rows: Ints, wrong: Floats) -> Floats:
    """What the decisions on some rows add to the log-odds of every sample. [N]"""
    nothing = np.zeros(len(odds))
    if not 0 < wrong.sum() < len(wrong):
        return nothing
    inputs = _encode(samples, rows)
    best, effects = _fit(odds[rows], wrong).evidence + CONVINCING, nothing
    for strength in STRENGTHS:
        fitted = _fit(odds[rows], wrong, inputs[rows], strength)
        if fitted.evidence > best:
            best = fitted.evidence
            effects = inputs @ fitted.weights[2:] / max(fitted.weights[0], 0.2)
    return np.asarray(effects)


def _encode(samples: pd.DataFrame, rows: Ints) -> Any:
    """Classes, their pairs and the confidence of every sample; classes that nobody saw are 0."""
    given, suggested = samples["given_label"], samples["suggested_label"]
    kinds = np.column_stack([given, suggested, given + "\0" + suggested])
    codes = OneHotEncoder(handle_unknown="ignore").fit(kinds[rows]).transform(kinds)
    sure = logit(np.clip(samples["confidence"].to_numpy(float), 1e-3, 1 - 1e-3))
    sure = (sure - sure[rows].mean()) / max(1e-6, float(sure[rows].std()))
    return sparse.hstack([codes, sure[:, None]], format="csr")


class _Fitted(NamedTuple):
    """Slope and shift of the log-odds, then effects; and how probable they make the decisions."""

    weights: Floats
    evidence: float


def _fit(odds: Floats, wrong: Floats, inputs: Any = None, strength: float = 0.0) -> _Fitted:
    """A logistic regression; the effects of the inputs have `strength` as standard deviation."""
    base = sparse.csr_matrix(np.column_stack([odds, np.ones(len(odds))]))
    design = base if inputs is None else sparse.hstack([base, inputs], format="csr")
    middle = np.eye(1, design.shape[1])[0]  # slope 1, all else 0
    spread = np.full(design.shape[1], strength)
    spread[:2] = SLOPE, SHIFT

    def loss(weights: Floats) -> tuple[float, Floats]:
        off = (weights - middle) / spread
        p = expit(design @ weights)
        said = LAPSE + (1 - 2 * LAPSE) * p  # how probably a person calls the label wrong
        error = (said - wrong) / (said * (1 - said)) * (1 - 2 * LAPSE) * p * (1 - p)
        surprise = -(np.log(said) @ wrong + np.log(1 - said) @ (1 - wrong))
        return float(surprise + off @ off / 2), design.T @ error + off / spread

    found = minimize(loss, middle, jac=True, method="L-BFGS-B")
    p = expit(design @ found.x)
    said = LAPSE + (1 - 2 * LAPSE) * p
    information = (1 - 2 * LAPSE) * p * (1 - p) / np.sqrt(said * (1 - said))  # its square root
    scaled = design.multiply(information[:, None]).multiply(spread).tocsr()
    gram = (scaled @ scaled.T if len(odds) < len(spread) else scaled.T @ scaled).toarray()
    _, curvature = np.linalg.slogdet(np.eye(len(gram)) + gram)
    return _Fitted(found.x, -float(found.fun) - curvature / 2)
