"""How good a judgement of labels is, where the truth is known."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score


def score(scores: NDArray[Any], kept: NDArray[Any], wrong: NDArray[Any]) -> dict[str, float | None]:
    """AUROC of scores (higher = noisier) and the quality of the decision `kept`.

    `tpr` and `fpr` have the paper's polarity, clean samples being the positives: the share of
    clean samples that are kept, and of noisy ones that are kept by mistake. `precision` and
    `recall` are a reviewer's: how many of the flagged are wrong, how many of the wrong are flagged.
    """
    wrong, kept = wrong.astype(bool), kept.astype(bool)
    flagged = ~kept
    both = bool(wrong.any() and (~wrong).any())
    return {
        "auroc": float(roc_auc_score(wrong, scores)) if both else None,
        "tpr": share(kept, ~wrong),
        "fpr": share(kept, wrong),
        "precision": share(wrong, flagged),
        "recall": share(flagged, wrong),
    }


def tell_outside(
    scores: NDArray[Any], wrong: NDArray[Any], in_distribution: NDArray[Any]
) -> float | None:
    """AUROC of the same scores among wrong labels: images of no class against those of another.

    None where all wrong labels are of one kind.
    """
    wrong = wrong.astype(bool)
    outside = ~in_distribution.astype(bool)[wrong]
    if not outside.any() or outside.all():
        return None
    return float(roc_auc_score(outside, scores[wrong]))


def average_precision(scores: NDArray[Any], wrong: NDArray[Any]) -> float | None:
    """The area under precision and recall of scores (higher = noisier); None if nothing is wrong.

    Unlike AUROC it depends on how many labels are wrong: guessing gets their share.
    """
    wrong = wrong.astype(bool)
    return float(average_precision_score(wrong, scores)) if wrong.any() else None


def share(what: NDArray[Any], among: NDArray[Any]) -> float | None:
    """The part of `among` that is `what`; None if there is none to ask."""
    return float(np.mean(what[among])) if among.any() else None
