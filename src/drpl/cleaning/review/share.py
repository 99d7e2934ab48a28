"""The share of wrong labels, by a look at a few of them in each stratum.

Of n samples that were looked at in stratum h (see `strata`), k were called wrong. What is wanted is
sum_h N_h theta_h / N, the N_h being known.

**Before anybody looked** the networks have a belief, the log-odds of `p_noisy`, and how far all of
it may be off is known from the interval of their noise rate: a common shift d is normal, with that
interval at two standard deviations, and one at least is taken to be one unit of log-odds. If m is
the mean of the shifted probabilities in the stratum, but at least DOUBT,

    theta_h ~ Beta(STRENGTH m, STRENGTH (1 - m)),

as if STRENGTH samples of it had been decided; four are looked at.

**People err**, too. If they take a share e of the labels for the opposite, they call a label wrong
with probability q = e + (1 - 2 e) theta_h, so that k has the likelihood q^k (1 - q)^(n - k). All e
from 0 to ERRING are equally probable at first. One label in a thousand that is called wrong where
networks doubt nothing looks like a slip, one in three does not.

theta, d and e are put on grids, and what is drawn from their joint posterior gives the estimate and
the interval, the shortest one that holds INSIDE of the draws: rates are skewed, and equal tails
would go farther up than is needed. That none is wrong is a hypothesis of its own: it is in the
interval if the networks do not rule it out, and the decisions are not REFUTED times more probable
otherwise.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, expit

from drpl.cleaning.review.strata import DOUBT, Bools, Floats, Ints

STRENGTH = 8.0
ERRING = 0.09
REFUTED = 20.0
NONE = 0.005  # a rate below which the networks do not rule out that all labels are right
DRAWS, INSIDE = 2000, 0.95
SHIFTS = np.linspace(-3, 3, 31)  # standard deviations
SLIPS = np.linspace(0, ERRING, 10)[:, None, None]  # e
EDGES = np.concatenate([[0.0], expit(np.linspace(-9, 9, 90)), [1.0]])  # of theta
THETA = (EDGES[1:] + EDGES[:-1]) / 2
LEAST = 1e-3  # a rate that beliefs are shifted to


class Interval(NamedTuple):
    """A number and the interval that holds the true one 19 times out of 20."""

    value: float
    low: float
    high: float


class Draws(NamedTuple):
    """Draws from the posterior of all strata."""

    theta: Floats  # [H, DRAWS]
    none: bool  # whether it may be that no label is wrong


class ShareEstimator:
    """What the networks believe of each stratum, ready for decisions."""

    def __init__(self, odds: Floats, strata: Ints, believed: Interval | None) -> None:
        self.strata, self.numbers = strata, np.unique(strata)
        self.sizes = np.array([(strata == h).sum() for h in self.numbers])
        believed = believed or Interval(float(expit(odds).mean()), 0.0, 1.0)
        self.may_be_none = believed.low < NONE
        shifts = _find_shifts(odds, believed)
        mean = np.array(
            [[expit(odds[strata == h] + d).mean() for h in self.numbers] for d in shifts]
        )
        mean = mean.clip(DOUBT, 1 - DOUBT)[..., None]
        below = betainc(STRENGTH * mean, STRENGTH * (1 - mean), EDGES)
        prior = np.exp(-(SHIFTS**2) / 2)
        self.shift_prior = prior / prior.sum()  # [D]
        self.prior = np.diff(below)  # [D, H, T]

    def draw(self, wrong: Floats, looked: Ints) -> Draws:
        """What is known after a look.

        `wrong` is what was decided on each sample, NaN where nothing was; `looked` are the rows of
        the look.
        """
        seen = [wrong[looked[self.strata[looked] == h]] for h in self.numbers]
        said = np.array([[values.sum(), (1 - values).sum()] for values in seen])
        return self._draw(said)

    def estimate(self, draws: Draws, wrong: Floats, part: Bools) -> Interval:
        """The share in some strata. Decisions beyond the look bound it: they were not random."""
        total = np.zeros(DRAWS)
        for h in np.unique(self.strata[part]):
            row = int(np.searchsorted(self.numbers, h))
            known = wrong[(self.strata == h) & np.isfinite(wrong)]
            least, most = known.sum(), self.sizes[row] - (1 - known).sum()
            total += np.clip(draws.theta[row] * self.sizes[row], least, most)
        share = total / part.sum()
        low, high = _find_shortest(share)
        return Interval(float(share.mean()), 0.0 if draws.none else low, high)

    def _draw(self, said: Floats) -> Draws:
        """Draws from the posterior, given how many were called wrong and right. [H, 2]"""
        q = SLIPS + (1 - 2 * SLIPS) * THETA
        q = q.clip(1e-9, 1 - 1e-9)
        likelihood = q ** said[:, :1] * (1 - q) ** said[:, 1:]  # [E, H, T]
        by_stratum = np.einsum("dht,eht->deh", self.prior, likelihood)
        joint = np.exp(np.log(by_stratum).sum(2)) * self.shift_prior[:, None]
        wrong, right = said.sum(0)
        none = float((SLIPS**wrong * (1 - SLIPS) ** right).sum())
        draws = np.random.default_rng(0)  # the same each time: numbers move with decisions only
        chosen = draws.choice(joint.size, DRAWS, p=joint.ravel() / joint.sum())
        shift, slip = np.unravel_index(chosen, joint.shape)
        theta = np.empty((len(said), DRAWS))
        for row in range(len(said)):
            reached = np.cumsum(self.prior[shift, row] * likelihood[slip, row], axis=1)
            cell = (reached < draws.random((DRAWS, 1)) * reached[:, -1:]).sum(1)
            cell = cell.clip(max=len(THETA) - 1)
            theta[row] = draws.uniform(EDGES[cell], EDGES[cell + 1])
        return Draws(theta, self.may_be_none and none * REFUTED > float(joint.sum()))


def _find_shortest(draws: Floats) -> tuple[float, float]:
    """The shortest interval that holds INSIDE of the draws."""
    draws = np.sort(draws)
    more = round(INSIDE * len(draws)) - 1
    start = int(np.argmin(draws[more:] - draws[: len(draws) - more]))
    return float(draws[start]), float(draws[start + more])


def _find_shifts(odds: Floats, believed: Interval) -> Floats:
    """What is added to the log-odds, from three standard deviations below to as many above. [D]"""

    def find(rate: float) -> float:
        rate = float(np.clip(rate, LEAST, 1 - LEAST))
        shift: float = brentq(lambda by: expit(odds + by).mean() - rate, -40, 40)
        return shift

    middle, low, high = map(find, believed)
    below, above = (max(1.0, distance / 2) for distance in (middle - low, high - middle))
    return middle + np.where(SHIFTS < 0, below, above) * SHIFTS
