"""How much of the data is wrong, and what is mistaken for what.

Let n be the share of wrong labels and e the networks' own error. A network then contradicts a label
with probability q = n (1 - e / (C - 1)) + (1 - n) e, so that

    n = (q - e) / (1 - e - e / (C - 1))

Nobody knows e. Two networks that err independently differ in about d = 2 e of the samples; if they
make the same errors, e is larger than d / 2. The estimate takes e = d / 2, the ends of the
interval e = d and e = 0, each with what samples drawn anew add.
"""

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from drpl.cleaning.judge import OUTSIDE, Judgement
from drpl.randomness import rng
from drpl.training.losses import one_hot

DRAWS = 500  # of the samples, with replacement
TAIL = 0.025  # on either side of the interval


@dataclass(frozen=True)
class Rate:
    """A share and the interval that it lies in 19 times out of 20."""

    value: float
    low: float
    high: float

    def text(self) -> str:
        """As in: 38 % (35 to 41 %)."""
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def noise_rate(runs: list[Judgement], seed: int) -> Rate:
    """The share of wrong labels; several runs add how far seeds differ."""
    classes = runs[0].probs.shape[1]
    tables = [signs(run) for run in runs]
    value = torch.stack([rates(table.mean(1, keepdim=True), classes) for table in tables]).mean(0)
    draws = rng(seed, "noise rate")
    samples = len(runs[0].given)
    found = []
    for _ in range(DRAWS):
        table = tables[int(torch.randint(len(tables), (), generator=draws))]
        again = torch.randint(samples, (samples,), generator=draws)
        found.append(rates(table[:, again].mean(1, keepdim=True), classes))
    low, _, high = torch.cat(found, 1)
    middle = float(value[1])
    ends = float(low.quantile(TAIL)), float(high.quantile(1 - TAIL))
    return Rate(middle, min(middle, max(0.0, ends[0])), max(middle, min(1.0, ends[1])))


def signs(run: Judgement) -> Tensor:
    """For each sample: the share of networks against its label, that of pairs which differ, and
    whether it looks like no class though its label was not contradicted. [3, N]"""
    pairs = [
        (run.votes[a] != run.votes[b]).float() for a, b in combinations(range(len(run.votes)), 2)
    ]
    against = run.against / len(run.votes)
    hidden = (run.outlier_score >= OUTSIDE).float() * (1 - against)
    return torch.stack([against, torch.stack(pairs).mean(0), hidden])


def rates(means: Tensor, classes: int) -> Tensor:
    """The lowest, the likely and the highest noise rate. [3, 1] from the means of `signs`"""
    against, differ, hidden = means

    def solved(contradicted: Tensor, error: Tensor) -> Tensor:
        return (contradicted - error) / (1 - error - error / (classes - 1)).clamp(min=1e-3)

    nothing = torch.zeros_like(differ)
    return torch.stack(
        [
            solved(against, differ),
            solved(against + hidden / 2, differ / 2),
            solved(against + hidden, nothing),
        ]
    ).clamp(0, 1)


def true_classes(run: Judgement) -> Tensor:
    """The true class of every sample as far as one knows; zeros where it belongs to none. [N, C]

    A label that stands is taken as true, for an issue the suggestion is.
    """
    labels = torch.where(run.issues, run.best[1], run.given)
    table = one_hot(labels, run.probs.shape[1])
    table[run.issues & (run.outlier_score >= OUTSIDE)] = 0
    return table


def noise_matrix(true: Tensor, given: Tensor) -> Tensor:
    """P(given | true), a row for each true class. [C, C]"""
    counts = true.T.double() @ one_hot(given, true.shape[1]).double()
    return counts / counts.sum(1, keepdim=True).clamp(min=1e-12)
