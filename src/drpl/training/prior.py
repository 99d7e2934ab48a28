"""How often a network predicts each class, as a running mean: to hold frequent classes back."""

import torch
from torch import Tensor, nn

from drpl.distributed import all_reduce_sum


class ClassPrior(nn.Module):
    """pi, the mean prediction of recent batches; uniform in the beginning.

    A buffer, so a stage that keeps it as a submodule resumes with the same.
    """

    shares: Tensor  # [C]

    def __init__(self, classes: int, decay: float) -> None:
        super().__init__()
        self.register_buffer("shares", torch.full((classes,), 1 / classes))
        self.decay = decay

    def forward(self, logits: Tensor, strength: float) -> Tensor:
        """z + strength log pi [B, C]: added in a loss, taken away from what becomes a label."""
        return logits + strength * self.shares.log()

    @torch.no_grad()
    def follow(self, probs: Tensor, mask: Tensor) -> None:
        """Move by the mean over some rows of a batch [B, C], [B] bool; by none it stays."""
        total = all_reduce_sum((probs * mask[:, None]).sum(0))
        if float(total.sum()) > 0:
            self.shares.lerp_(total / total.sum(), 1 - self.decay)
