"""Suspects that look alike, so that one decision can do for all of them."""

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering
from torch import Tensor

NEAR = 0.1  # quantile of the distances within a class: what lies nearer than that looks alike
MOST = 2000  # of one pair of classes that are compared, worst first
SHOWN = 500  # samples whose distances are measured


def group_alike(issues: pd.DataFrame, vectors: Tensor, labels: Tensor) -> NDArray[np.int64]:
    """A number for each issue, the same for those that look alike; -1 where one is alone.

    `vectors` [N, F] and `labels` [N] are of all samples, ids of `issues` are rows of them. Only
    issues with the same given and the same suggested label are compared: one decision fits them.
    """
    groups = np.full(len(issues), -1, np.int64)
    unit = torch.nn.functional.normalize(vectors.float() - vectors.float().mean(0))
    ids = torch.from_numpy(issues["id"].to_numpy())
    reach, count = _measure_reach(unit, labels), 0
    pairs = issues.groupby(["given_label", "suggested_label"], sort=False).indices
    for rows in (rows[:MOST] for rows in pairs.values() if len(rows) > 1):
        clusters = AgglomerativeClustering(
            n_clusters=None, metric="cosine", linkage="complete", distance_threshold=reach
        ).fit_predict(unit[ids[rows]].numpy())
        for members in (np.flatnonzero(clusters == k) for k in np.unique(clusters)):
            if len(members) > 1:
                groups[rows[members]] = count
                count += 1
    return groups


def _measure_reach(unit: Tensor, labels: Tensor) -> float:
    """The distance below which two images look alike: it is small among those of one class."""
    index = torch.linspace(0, len(labels) - 1, min(SHOWN, len(labels))).long()
    same = (labels[index, None] == labels[index]).triu(1)
    distances = (1 - unit[index] @ unit[index].T)[same]
    return max(1e-6, float(distances.quantile(NEAR))) if len(distances) else 1e-6
