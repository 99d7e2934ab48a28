"""TS, the paper's detector by agreement, on finished runs of cross-entropy; without torch."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from drpl.registry import DETECTORS
from drpl.report.load import read_arrays, read_samples
from drpl.runs.folder import Result

DETECTOR = "two_stage"  # its name in `drpl list detectors`
METHOD, STAGE = "cross_entropy", "train"  # whose runs it judges, and by the evidence of which stage


class Agreement(NamedTuple):
    """What TS says of the labels of a run."""

    scores: NDArray[Any]  # [N] higher = noisier
    wrong: NDArray[np.bool_]  # [N] which labels are
    result: Result  # the run under the detector's name, and how well it detects


def judge_by_agreement(run: Result) -> Agreement | None:
    """The labels of a run of cross-entropy as `drpl score --detector two_stage` judges them.

    None for other methods, or where there is no evidence, no truth, or no wrong label.
    """
    if run.summary["method"] != METHOD or (run.detection or {}).get("auroc") is None:
        return None
    samples = read_samples(run)
    probs = (read_arrays(run, f"evidence/{STAGE}.npz", "probs") or {}).get("probs")
    if probs is None or samples is None:
        return None
    wrong = samples["wrong"].astype(bool)
    scores = score_agreement(probs, samples["given"])
    kept = scores <= DETECTORS[DETECTOR].threshold
    detection = {
        "auroc": float(roc_auc_score(wrong, scores)),
        "tpr": float(kept[~wrong].mean()),
        "fpr": float(kept[wrong].mean()),
    }
    own = {"method": DETECTOR, "detection": detection, "flagged": int((~kept).sum())}
    unknown = {"accuracy": {"last": None, "best": None}, "stages": []}
    return Agreement(scores, wrong, replace(run, summary=run.summary | own | unknown))


def score_agreement(probs: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
    """1 - p[y] where argmax p = y, otherwise 2 - p[y]: the detector `two_stage`. [N]"""
    own = probs[np.arange(len(given)), given].astype(np.float64)
    return np.asarray(1 - own + (probs.argmax(1) != given))
