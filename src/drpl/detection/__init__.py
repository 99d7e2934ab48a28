"""Detection: from what a network says of the samples to the labels that are probably wrong.

A detector is a function of the evidence and the given labels. What it returns, a suspicion for each
sample, has one meaning: the higher, the noisier.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drpl.catalogue import Entry

if TYPE_CHECKING:
    from torch import Tensor

    from drpl.detection.evidence import Evidence

Detector = Callable[["Evidence", "Tensor"], "Tensor"]  # evidence, labels [N] -> suspicion [N]


@dataclass(frozen=True)
class Known(Entry):
    """A detector and how it decides: a label is kept if its suspicion is at most `threshold`."""

    threshold: float | None = None  # None: a beta mixture of the suspicions decides


DETECTORS = {
    "small_loss": Known(
        "drpl.detection.detectors:small_loss", "the latest loss against the given label"
    ),
    "posterior": Known(
        "drpl.detection.detectors:posterior",
        "the probability of noise by a beta mixture of the latest losses",
        threshold=0.5,
    ),
    "trajectory": Known(
        "drpl.detection.detectors:trajectory", "the mean loss of all tracked epochs"
    ),
    "margin": Known(
        "drpl.detection.detectors:margin",
        "minus the mean margin of the given label over all tracked epochs (AUM)",
    ),
    "two_stage": Known(
        "drpl.detection.detectors:two_stage",
        "a prediction that disagrees with the label, or agrees and is unsure",
        threshold=1 - 0.95,  # kept: agrees, and gives the label at least 0.95
    ),
    "negative": Known(
        "drpl.detection.detectors:negative",
        "how little probability the label has, meant for runs of negative learning",
        threshold=0.5,
    ),
    "confident": Known(
        "drpl.detection.detectors:confident",
        "confident learning by the package cleanlab, on predictions for training samples",
        threshold=1.0,
    ),
}
