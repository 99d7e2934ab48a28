"""What a trained network says of every sample."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from drpl.files import read_arrays


@dataclass(frozen=True)
class Evidence:
    """Losses against the given labels, and predictions, after the stage of that name.

    The means are over the second half of the stage's epochs, of the predictions that training made
    anyway, or over all that a `Recorder` saw; None where the stage recorded none, or in folders of
    older versions. Targets are there after stages that replace or soften labels and keep them,
    vectors where samples are vectors, or where a stage learns an embedding of them.
    """

    stage: str
    losses: Tensor  # [E, N] one row per observation, the last row is now
    margins: Tensor  # [E, N] how far the given label's logit lies above the best other one
    probs: Tensor  # [N, C] of the last observation
    mean_probs: Tensor | None = None  # [N, C]
    mean_losses: Tensor | None = None  # [N]
    mean_margins: Tensor | None = None  # [N]
    targets: Tensor | None = None  # [N, C] what the stage taught in the end, in place of labels
    vectors: Tensor | None = None  # [N, D] that samples are compared by

    @property
    def now(self) -> Tensor:
        """The latest loss of each sample. [N]"""
        return self.losses[-1]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What goes to disk."""
        tables = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return {name: table.numpy() for name, table in tables.items() if table is not None}

    @classmethod
    def read(cls, path: Path) -> "Evidence":
        """From disk; the stage is the file's name."""
        tables = {name: torch.from_numpy(table) for name, table in read_arrays(path).items()}
        return cls(path.stem, **tables)
