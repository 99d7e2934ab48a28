"""Evidence at no cost: what a stage's own training forwards said, averaged over its epochs."""

import torch
from torch import Tensor

from drpl.training.evaluate import label_losses, label_margins
from drpl.training.feed import EpochPredictions
from drpl.training.tables import make_table, split_rows

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
            self.state = {name: make_table(*probs.shape) for name in ("latest", "probs")}
            self.state |= {name: probs.new_zeros(len(probs)) for name in SUMS}
            self.state["seen"] = torch.zeros_like(visited)
        s = self.state
        s["seen"] |= visited
        for rows in split_rows(len(probs), probs, s["latest"], s["probs"]):
            now, new = visited[rows], probs[rows][visited[rows]]
            s["latest"][rows][now] = new
            if epoch >= self.first:
                y, log_probs = self.labels[rows][now], new.clamp(min=TINY).log()
                s["probs"][rows][now] += new
                s["losses"][rows][now] += label_losses(log_probs, y)
                s["margins"][rows][now] += label_margins(log_probs, y)
                s["count"][rows] += now

    def average(self, otherwise: Tensor) -> dict[str, Tensor] | None:
        """mean_probs [N, C], mean_losses [N], mean_margins [N]; None if nothing was recorded.

        `otherwise` [N, C] are the probabilities of samples that no epoch visited.
        """
        if not self.state:
            return None
        s = self.state
        probs, (losses, margins, count) = make_table(*otherwise.shape), (s[name] for name in SUMS)
        mean = {"mean_probs": probs, "mean_losses": losses.clone(), "mean_margins": margins.clone()}
        for rows in split_rows(len(probs), probs, s["latest"], s["probs"], otherwise):
            times, averaged = count[rows].clamp(min=1), count[rows] > 0
            single = torch.where(s["seen"][rows, None], s["latest"][rows], otherwise[rows])
            log_probs, y = single.clamp(min=TINY).log(), self.labels[rows]
            for name, total, now in (
                ("mean_losses", losses, label_losses(log_probs, y)),
                ("mean_margins", margins, label_margins(log_probs, y)),
            ):
                mean[name][rows] = torch.where(averaged, total[rows] / times, now)
            probs[rows] = torch.where(averaged[:, None], s["probs"][rows] / times[:, None], single)
        return mean
