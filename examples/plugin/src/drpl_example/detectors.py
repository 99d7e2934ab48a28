"""A detector: a score for each sample, the higher the noisier."""

from torch import Tensor

import drpl


def averaged_doubt(evidence: drpl.Evidence, labels: Tensor) -> Tensor:
    """1 - p[y], p the mean prediction over the second half of the training. [N]"""
    probs = evidence.probs if evidence.mean_probs is None else evidence.mean_probs
    return 1 - probs.gather(1, labels[:, None]).squeeze(1)


# Labels with a lower score are kept; without it a mixture of two beta distributions decides.
averaged_doubt.threshold = 0.7  # type: ignore[attr-defined]
