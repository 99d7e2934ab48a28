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

DRAWS = 500  # of the samples, with replacement
TAIL = 0.025  # on either side of the interval


@dataclass(frozen=True)
class Rate:
    """A share and the interval that it lies in 19 times out of 20."""

    value: float
    low: float
    high: float


def estimate_rate(runs: list[Judgement], seed: int) -> Rate:
    """The share of wrong labels; several runs add how far seeds differ."""
    classes = runs[0].probs.shape[1]
    tables = [_collect_signs(run) for run in runs]
    middle = float(torch.stack([_solve_rates(table, classes) for table in tables]).mean(0)[1])
    draws = rng(seed, "noise rate")
    samples = len(runs[0].given)
    redrawn = []
    for _ in range(DRAWS):
        table = tables[int(torch.randint(len(tables), (), generator=draws))]
        again = torch.randint(samples, (samples,), generator=draws)
        redrawn.append(_solve_rates(table[:, again], classes))
    low, _, high = torch.cat(redrawn, 1)
    ends = float(low.quantile(TAIL)), float(high.quantile(1 - TAIL))
    return Rate(middle, min(middle, max(0.0, ends[0])), max(middle, min(1.0, ends[1])))


def _collect_signs(run: Judgement) -> Tensor:
    """For each sample: the share of networks that contradict its label, that of pairs of networks
    which differ, and whether it looks like no class though its label was not contradicted. [3, N]
    """
    pairs = [(a != b).float() for a, b in combinations(run.votes, 2)]
    against = run.against / len(run.votes)
    hidden = (run.outlier_score >= OUTSIDE).float() * (1 - against)
    return torch.stack([against, torch.stack(pairs).mean(0), hidden])


def _solve_rates(signs: Tensor, classes: int) -> Tensor:
    """The lowest, the likely and the highest noise rate. [3, 1]"""
    against, differ, hidden = signs.mean(1, keepdim=True)
    contradicted = torch.stack([against, against + hidden / 2, against + hidden])
    error = torch.stack([differ, differ / 2, torch.zeros_like(differ)])
    share = (contradicted - error) / (1 - error - error / (classes - 1)).clamp(min=1e-3)
    return share.clamp(0, 1)


def estimate_truth(run: Judgement) -> tuple[Tensor, Tensor]:
    """The true class of every sample as far as one knows, and whether it belongs to any. [N]

    A label that is no issue is taken as true, for an issue the suggestion is.
    """
    labels = torch.where(run.issues, run.best[1], run.given)
    return labels, ~(run.issues & (run.outlier_score >= OUTSIDE))
