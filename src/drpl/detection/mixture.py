"""Two beta distributions on the losses: one of clean samples, one of noisy ones.

Losses are scaled to (0, 1) between their 5th and 95th percentile and EM runs for ten rounds on
what lies between, as in the released code; every sample is scored, the trimmed ones too.

    E:  r_k = w_k Beta(x; a_k, b_k), floored at 1e-12, normalised over k
    M:  a_k = m (m (1 - m) / v - 1),  b_k = a_k (1 - m) / m,  w_k = mean of r_k,
        m and v being the mean and variance of x under the weights r_k
"""

from dataclasses import dataclass, replace
from math import isfinite, log
from typing import Any

import numpy as np
import torch
from scipy.special import betaln
from torch import Tensor

from drpl.errors import TrainingError

ROUNDS = 10
FLOOR = 1e-12
EDGE = 1e-4  # the fit, not the scoring, keeps this far from 0 and 1
GRID = 100  # points of the released look-up table
CHUNK = 1 << 15  # samples worked on at once: they and their logarithms stay in the cache
Pair = tuple[float, ...]  # clean (low loss), noisy (high loss)


@dataclass(frozen=True)
class Scale:
    """Losses to (0, 1): lo and hi are percentiles, what lies outside goes to the edges."""

    lo: float
    hi: float

    @classmethod
    def of(cls, losses: Tensor) -> "tuple[Scale, Tensor]":
        """The scale of these losses, and the 90 % of them that the mixture is fitted to."""
        low, high = np.percentile(losses.numpy(), [5, 95])
        return cls(float(low), float(high)), losses[(losses >= low) & (losses <= high)]

    def __call__(self, losses: Tensor) -> Tensor:
        """Scaled losses in [0.001, 0.999]."""
        lo = self.lo + 1e-5
        x = (losses - lo) / (self.hi - lo + 1e-6)
        return x.masked_fill(x >= 1, 0.999).masked_fill(x <= 0, 0.001)


@dataclass(frozen=True)
class BetaMixture:
    """A fitted mixture; `notes` say in words what is doubtful about it."""

    alpha: Pair
    beta: Pair
    weight: Pair
    scale: Scale | None = None  # None: values are in (0, 1) already
    lookup: bool = False  # the released code's table of 100 entries instead of the exact posterior
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(cls, losses: Tensor, *, lookup: bool = False) -> "BetaMixture":
        """Scale, trim, and run EM."""
        losses = losses.double().cpu()
        if not bool(torch.isfinite(losses).all()):
            bad = int((~torch.isfinite(losses)).sum())
            raise TrainingError(f"{bad} of {len(losses)} losses are not finite: training diverged")
        scale, middle = Scale.of(losses)
        if scale.hi - scale.lo < 1e-4:
            return cls((1, 1), (1, 1), (1, 0), scale, lookup, (CONSTANT,))
        return replace(cls.fit_scaled(scale(middle)), scale=scale, lookup=lookup).examine()

    @classmethod
    def fit_scaled(
        cls, x: Tensor, *, start: "BetaMixture | None" = None, rounds: int = ROUNDS
    ) -> "BetaMixture":
        """EM on values that lie in (0, 1) already, from the usual beginning or another one."""
        chunks = [  # 1, x, x^2 and the logarithms, which every round needs
            (torch.stack([torch.ones_like(part), part, part * part]), part.log(), (-part).log1p())
            for part in x.double().clamp(EDGE, 1 - EDGE).split(CHUNK)
        ]
        now = start or cls(alpha=(1, 2), beta=(2, 1), weight=(0.5, 0.5))
        for _ in range(rounds):
            sums = torch.stack([now.expect(*chunk) for chunk in chunks]).sum(0)
            following = now.maximise(sums, len(x))
            if following is None:
                return replace(now, notes=(COLLAPSED,))
            now = following
        return now

    def expect(self, powers: Tensor, log_x: Tensor, log_1mx: Tensor) -> Tensor:
        """The E-step: sums of 1, x and x^2 under each component's responsibility. [2, 3]"""
        clean, noisy = (self.log_joint(log_x, log_1mx, k).clamp_(min=log(FLOOR)) for k in (0, 1))
        of_noisy = powers @ torch.sigmoid(noisy.sub_(clean))
        return torch.stack([powers.sum(1) - of_noisy, of_noisy])

    def maximise(self, sums: Tensor, count: int) -> "BetaMixture | None":
        """The M-step from the weighted sums of 1, x and x^2; None where a component vanished."""
        found = []
        for total, first, second in sums.tolist():  # clean, noisy
            if total <= 0 or first <= 0:
                return None
            m = first / total
            v = second / total - m**2
            a = m * (m * (1 - m) / v - 1) if v > 1e-12 else float("nan")
            if not (isfinite(a) and a > 0):
                return None
            found.append((a, a * (1 - m) / m, total / count))
        alpha, beta, weight = zip(*found, strict=True)
        return replace(self, alpha=alpha, beta=beta, weight=weight)

    @property
    def modes(self) -> Pair:
        """Where the densities would be highest, (a - 1) / (a + b - 2); beyond 0 or 1 at an edge."""
        shapes = zip(self.alpha, self.beta, strict=True)
        return tuple((a - 1) / (a + b - 2) if a + b != 2 else float("nan") for a, b in shapes)

    def to_record(self) -> dict[str, Any]:
        """What goes to disk."""
        return {
            "alpha": list(self.alpha),
            "beta": list(self.beta),
            "weight": list(self.weight),
            "scale": [self.scale.lo, self.scale.hi] if self.scale else None,
        }

    def log_joint(self, log_x: Tensor, log_1mx: Tensor, k: int) -> Tensor:
        """log (w_k Beta(x; a_k, b_k))."""
        a, b = self.alpha[k], self.beta[k]
        constant = log(max(self.weight[k], 1e-300)) - float(betaln(a, b))
        return torch.add(constant + (a - 1) * log_x, log_1mx, alpha=b - 1)

    def posterior(self, x: Tensor) -> Tensor:
        """p(noisy | x), as it is: without the corrections of the tails."""
        log_x, log_1mx = x.log(), (-x).log1p()
        log_odds = self.log_joint(log_x, log_1mx, 1).sub_(self.log_joint(log_x, log_1mx, 0))
        return log_odds.sigmoid_()

    def noisy(self, losses: Tensor) -> Tensor:
        """Probability of noise for every sample. [N]"""
        losses = losses.double().cpu()
        if self.weight[1] == 0:
            return torch.zeros_like(losses)
        score = self._look_up if self.lookup else self._exact
        return torch.cat([score(self._scale(part)) for part in losses.split(CHUNK)])

    def _scale(self, losses: Tensor) -> Tensor:
        # Clamped: the scale moves only what is outside (0, 1), past values just inside its edges.
        return self.scale(losses).clamp(0.001, 0.999) if self.scale else losses

    def _exact(self, x: Tensor) -> Tensor:
        return self.posterior(x.clamp(*self.find_rising()))

    def _look_up(self, x: Tensor) -> Tensor:
        """The released code: a table of 100 entries, constant from its maximum on."""
        grid = torch.linspace(1e-12, 1 - 1e-12, GRID, dtype=torch.float64)
        clean, noisy = (self.log_joint(grid.log(), (-grid).log1p(), k).exp() for k in (0, 1))
        table = noisy / (clean + noisy + FLOOR)
        top = int(table.argmax())
        table[top:] = table[top]
        return table[(x * GRID).long().clamp(max=GRID - 1)]

    def find_rising(self) -> Pair:
        """Where the posterior rises with the loss.

        Near 1 the noisy density may fall below the clean one again, or near 0 rise above it. The
        log-odds turn once at most, at (a_2 - a_1) / (a_2 - a_1 + b_2 - b_1); beyond that point
        the value at it is used, so that no higher loss is ever called cleaner.
        """
        a, b = self.alpha[1] - self.alpha[0], self.beta[1] - self.beta[0]
        if a > 0 and b > 0:
            return 0.0, a / (a + b)
        return (a / (a + b) if a < 0 and b < 0 else 0.0), 1.0

    def examine(self) -> "BetaMixture":
        """The same, noisy being the higher component, with notes on what is doubtful."""
        means = [a / (a + b) for a, b in zip(self.alpha, self.beta, strict=True)]
        if means[0] > means[1]:
            alpha, beta, weight = self.alpha[::-1], self.beta[::-1], self.weight[::-1]
            return replace(self, alpha=alpha, beta=beta, weight=weight).examine()
        shapes = zip(means, self.alpha, self.beta, strict=True)
        spread = [m * (1 - m) / (a + b + 1) for m, a, b in shapes]
        notes = list(self.notes)
        if min(self.weight) < 0.02:
            side = "clean" if self.weight[0] < self.weight[1] else "noisy"
            notes.append(
                f"the mixture is one-sided: only {min(self.weight):.1%} of the losses are {side}"
            )
        elif means[1] - means[0] < 1.25 * (sum(spread) / 2) ** 0.5:
            notes.append("the losses have one mode, not two: they hardly separate clean from noisy")
        return replace(self, notes=tuple(notes))


CONSTANT = "the losses are (nearly) all the same: nothing can be called noisy by them"
COLLAPSED = "a component of the mixture collapsed; the fit stopped at the last good round"
