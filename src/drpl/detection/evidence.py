"""What a trained network says of every sample."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

TABLES = ("losses", "margins", "probs")


@dataclass(frozen=True)
class Evidence:
    """Losses against the given labels, and predictions, after the stage of that name."""

    stage: str
    losses: Tensor  # [E, N] one row per observation, the last row is now
    margins: Tensor  # [E, N] how far the given label's logit lies above the best other one
    probs: Tensor  # [N, C]

    @property
    def now(self) -> Tensor:
        """The latest loss of each sample. [N]"""
        return self.losses[-1]

    def arrays(self) -> dict[str, np.ndarray]:
        """What goes to disk."""
        return {name: getattr(self, name).numpy() for name in TABLES}

    @classmethod
    def read(cls, path: Path) -> "Evidence":
        """From disk; the stage is the file's name."""
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            return cls(path.stem, *(torch.from_numpy(arrays[name]) for name in TABLES))
