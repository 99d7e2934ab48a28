"""The equations that several methods share. N samples, C classes, B batch; logs are natural."""

from typing import NamedTuple

import torch
from scipy.special import betaincinv
from torch import Generator, Tensor
from torch.nn import functional

from drpl.training.tables import make_table


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """[N] -> float [N, C]."""
    table = make_table(len(labels), classes, device=labels.device)
    return table.scatter_(1, labels[:, None], 1)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-(1/B) sum_i sum_c t_ic log p_ic, for soft targets [B, C]."""
    return functional.cross_entropy(logits, targets)


def masked_cross_entropy(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The same over some rows of a batch [B] bool; 0 over none, with a gradient of 0."""
    losses = functional.cross_entropy(logits, targets, reduction="none")
    return (losses * mask).sum() / mask.sum().clamp(min=1)


def entropy(p: Tensor) -> Tensor:
    """R_H = -(1/B) sum_i sum_c p_ic log p_ic: low when every prediction is decided."""
    return -(p * p.clamp(min=1e-30).log()).sum(1).mean()  # no NaN gradient where p is 0


def from_uniform(p: Tensor) -> Tensor:
    """R_A = -sum_c (1/C) log pbar_c, pbar the batch mean: low when no class is forgotten.

    KL(uniform || pbar) plus the constant log C.
    """
    return -p.mean(0).clamp(min=1e-8).log().mean()


def from_prior(p: Tensor, prior: Tensor | None) -> Tensor:
    """R_A = -sum_c prior_c log pbar_c; the uniform prior where none is given."""
    return from_uniform(p) if prior is None else -(prior * p.mean(0).clamp(min=1e-8).log()).sum()


def draw_weight(alpha: float, rng: Generator) -> float:
    """A weight of mixup ~ Beta(alpha, alpha)."""
    u = float(torch.rand((), generator=rng, dtype=torch.float64))
    return u if alpha == 1 else float(betaincinv(alpha, alpha, u))


def sharpen(q: Tensor, temperature: float) -> Tensor:
    """q^(1/T), normalised. [B, C]"""
    powers = q ** (1 / temperature)
    return powers / powers.sum(1, keepdim=True)


class Mix(NamedTuple):
    """Who is mixed with whom, and how much of a row is its own."""

    weight: float
    partner: Tensor  # [B] a permutation

    def blend(self, table: Tensor) -> Tensor:
        """Each row of a batch mixed with its partner's. [B, ...]"""
        return torch.lerp(table[self.partner], table, self.weight)


class Mixed(NamedTuple):
    """Mixed images, their targets, and the row of the batch that weighs most in each."""

    x: Tensor
    targets: Tensor
    main: Tensor  # [B]


def mixup(
    x: Tensor, targets: Tensor, alpha: float, rng: Generator, *, mostly_own: bool = False
) -> Mixed:
    """Convex pairs of images and of their targets, one weight ~ Beta(alpha, alpha) a batch.

    `mostly_own` takes the larger of the weight and 1 - weight, so that no row becomes another.
    Cross-entropy is linear in its targets, so mixing them equals mixing the two losses.
    """
    mix = draw_mix(x, alpha, rng, mostly_own=mostly_own)
    main = torch.arange(len(x), device=x.device) if mix.weight >= 0.5 else mix.partner
    return Mixed(mix.blend(x), mix.blend(targets), main)


def draw_mix(x: Tensor, alpha: float, rng: Generator, *, mostly_own: bool = False) -> Mix:
    """The draws of `mixup` for the batch x, for methods that mix more than images and targets."""
    weight = draw_weight(alpha, rng)
    if mostly_own:
        weight = max(weight, 1 - weight)
    return Mix(weight, torch.randperm(len(x), generator=rng).to(x.device))
