"""Evidence at no cost: what a stage's own training forwards said, averaged over its epochs."""

import torch
from torch import Tensor

from drpl.training.evaluate import label_losses, label_margins
from drpl.training.feed import EpochPredictions

TINY = 1e-12  # probabilities below this have no meaningful logarithm in single precision
SUMS = ("losses", "margins", "count")  # [N] tables of the state


class PredictionMean:
    """Means of probabilities, losses and margins over the second half of a stage's epochs.

    Samples that were not visited then have those of the latest epoch in which they were.
    """

    def __init__(self, labels: Tensor, epochs: int, state: dict[str, Tensor] | None = None) -> None:
        self.labels, self.first = labels, epochs // 2 + 1
        self.state = state or {}  # tensors only: it goes into the checkpoint

    def add(self, epoch: int, found: EpochPredictions) -> None:
        """Take in the predictions of an epoch."""
        probs, visited = found.probs.cpu(), found.visited.cpu()
        if not probs.shape[1]:  # a stage that records nothing
            return
        if not self.state:
            self.state = {name: torch.zeros_like(probs) for name in ("latest", "probs")}
            self.state |= {name: probs.new_zeros(len(probs)) for name in SUMS}
            self.state["seen"] = torch.zeros_like(visited)
        s = self.state
        s["latest"][visited] = probs[visited]
        s["seen"] |= visited
        if epoch >= self.first:
            y, log_probs = self.labels[visited], probs[visited].clamp(min=TINY).log()
            s["probs"][visited] += probs[visited]
            s["losses"][visited] += label_losses(log_probs, y)
            s["margins"][visited] += label_margins(log_probs, y)
            s["count"] += visited

    def average(self, otherwise: Tensor) -> dict[str, Tensor] | None:
        """mean_probs [N, C], mean_losses [N], mean_margins [N]; None if nothing was recorded.

        `otherwise` [N, C] are the probabilities of samples that no epoch visited.
        """
        if not self.state:
            return None
        s, times = self.state, self.state["count"].clamp(min=1)
        single = torch.where(s["seen"][:, None], s["latest"], otherwise)
        log_probs, averaged = single.clamp(min=TINY).log(), s["count"] > 0
        losses, margins = (of(log_probs, self.labels) for of in (label_losses, label_margins))
        return {
            "mean_probs": torch.where(averaged[:, None], s["probs"] / times[:, None], single),
            "mean_losses": torch.where(averaged, s["losses"] / times, losses),
            "mean_margins": torch.where(averaged, s["margins"] / times, margins),
        }
