"""A detector of one's own, scored like those of the library: doubt of the averaged prediction.

    python examples/own_detector.py

A detector is a function of the evidence and the given labels; what it returns, a score for each
sample, has one meaning: the higher, the noisier. To bring it into the library: the function goes
to `src/drpl/detection/detectors.py`, and `DETECTORS` in `src/drpl/registry.py` gets one line.
"""

import sys
from pathlib import Path

import pandas as pd
from torch import Tensor

import drpl


def averaged_doubt(evidence: drpl.Evidence, labels: Tensor) -> Tensor:
    """1 - p[y], p the mean prediction over the second half of the training. [N]"""
    probs = evidence.probs if evidence.mean_probs is None else evidence.mean_probs
    return 1 - probs.gather(1, labels[:, None]).squeeze(1)


def main(out: Path, epochs: int) -> pd.DataFrame:
    """On digits of which 40 % carry a wrong label, beside the loss of the last epoch."""
    settings = {"width": 8, "schedule": {"epochs": epochs, "lr": [[1, 0.05]]}}
    result = drpl.train(
        "digits", method="cross_entropy", noise="uniform:0.4", settings=settings, out=out
    )
    return drpl.score(result.folder, ["small_loss", averaged_doubt])


if __name__ == "__main__":
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(main(Path("runs/own-detector"), epochs)[["stage", "detector", "auroc"]])
