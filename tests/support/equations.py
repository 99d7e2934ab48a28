"""What is asked of every loss: gradients as by finite differences, and no overflow."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import gradcheck

from drpl.randomness import rng
from drpl.training.losses import one_hot

Loss = Callable[[Tensor, Tensor], Tensor]  # of logits and labels
LOGITS = torch.tensor([[2.0, 0, 0], [0, 1, -1]], dtype=torch.float64)
LABELS = torch.tensor([0, 1])
NOISE = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], dtype=torch.float64)


def check_gradient(loss: Loss) -> None:
    """As finite differences have it."""
    logits = torch.randn(9, 3, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    labels = torch.arange(9) % 3
    assert gradcheck(lambda x: loss(x, labels), logits)


def check_hopeless(loss: Loss, dtype: torch.dtype) -> None:
    """The probability of the given label is zero in floating point."""
    logits = (200 * one_hot(torch.tensor([0, 0, 1, 2]), 3)).to(dtype).requires_grad_()
    value = loss(logits, torch.tensor([1, 2, 0, 1]))
    (slope,) = torch.autograd.grad(value, logits)
    assert bool(value.isfinite())
    assert bool(slope.isfinite().all())
