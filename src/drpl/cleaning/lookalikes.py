"""Suspects that look alike, so that one decision can do for all of them."""

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering
from torch import Tensor

NEAR = 0.1  # quantile of the distances within a class: images that are nearer look alike
MOST = 2000  # issues of one pair of classes that are compared, worst first
MEASURED = 500  # samples whose distances are measured for that quantile
ALONE = -1


def group_lookalikes(issues: pd.DataFrame, features: Tensor, labels: Tensor) -> NDArray[np.int64]:
    """A number for each issue, the same for those that look alike; ALONE where nothing does.

    `features` [N, F] and `labels` [N] are of all samples; ids of `issues` are their rows. Only
    issues with the same given label, suggestion and verdict are compared: one decision fits them.
    """
    groups = np.full(len(issues), ALONE, np.int64)
    unit = torch.nn.functional.normalize(features.float() - features.float().mean(0))
    ids = torch.tensor(issues["id"].tolist(), dtype=torch.int64)
    reach, count = _measure_reach(unit, labels), 0
    kinds = issues.groupby(["given_label", "suggested_label", "verdict"], sort=False).indices
    told_apart = unit.norm(dim=1)[ids].numpy() > 0  # others have no direction to compare
    for rows in (rows[told_apart[rows]][:MOST] for rows in kinds.values()):
        if len(rows) < 2:
            continue
        clusters = AgglomerativeClustering(
            n_clusters=None, metric="cosine", linkage="complete", distance_threshold=reach
        ).fit_predict(unit[ids[rows]].numpy())
        for members in (np.flatnonzero(clusters == k) for k in np.unique(clusters)):
            if len(members) > 1:
                groups[rows[members]] = count
                count += 1
    return groups


def _measure_reach(unit: Tensor, labels: Tensor) -> float:
    """The distance below which two images look alike: few pairs of one class are as near."""
    index = torch.linspace(0, len(labels) - 1, min(MEASURED, len(labels))).long()
    same = (labels[index, None] == labels[index]).triu(1)
    distances = (1 - unit[index] @ unit[index].T)[same]
    return max(1e-6, float(distances.quantile(NEAR))) if len(distances) else 1e-6
