"""The detectors: each a function (evidence, given labels) -> score [N], higher = noisier.

E observations, N samples, y the given labels, p the probabilities of the latest observation.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from drpl.detection.evidence import Evidence
from drpl.detection.mixture import BetaMixture
from drpl.errors import ConfigError, RunError

Detector = Callable[[Evidence, Tensor], Tensor]  # evidence, labels [N] -> score [N]


def small_loss(evidence: Evidence, labels: Tensor) -> Tensor:
    """The latest loss: networks learn right labels first."""
    return evidence.now


def posterior(evidence: Evidence, labels: Tensor) -> Tensor:
    """p(noisy | latest loss) by a beta mixture; ties where it saturates, unlike the loss itself."""
    return BetaMixture.fit(evidence.now).noisy(evidence.now)


def trajectory(evidence: Evidence, labels: Tensor) -> Tensor:
    """The mean loss over epochs: what was learnt late was high for long."""
    return _mean_over_epochs("trajectory", evidence.losses, evidence.mean_losses)


def margin(evidence: Evidence, labels: Tensor) -> Tensor:
    """Minus the mean margin, the "area under the margin" (Pleiss et al., 2020).

    Only its ranking is theirs: they decide by the margins of samples that are trained with a label
    of no class, which no run here has, so the decision is left to a mixture.
    """
    return -_mean_over_epochs("margin", evidence.margins, evidence.mean_margins)


def two_stage(evidence: Evidence, labels: Tensor) -> Tensor:
    """1 - p[y] where argmax p = y, otherwise 2 - p[y] (the selection of Ding et al., 2018)."""
    return negative(evidence, labels) + (evidence.probs.argmax(1) != labels)


def negative(evidence: Evidence, labels: Tensor) -> Tensor:
    """1 - p[y]; a run of negative learning (Kim et al., 2019) has the mean of ten epochs as p."""
    return 1 - evidence.probs.double().gather(1, labels[:, None]).squeeze(1)


def confident(evidence: Evidence, labels: Tensor) -> Tensor:
    """1 - quality as cleanlab ranks it, and 1 more for the labels that it calls issues.

    The quality is the normalised margin; the issues are the labels lowest in it, as many as
    confident learning (Northcutt et al., 2021) counts. Its theory asks for predictions on samples
    that the network was not trained on; these are of training samples, so that it finds fewer.
    """
    try:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        raise ConfigError(
            "the detector 'confident' needs the package cleanlab: pip install 'drpl[cleanlab]'"
        ) from None
    given, probs = labels.numpy(), evidence.probs.double().numpy()
    quality = get_label_quality_scores(given, probs, method="normalized_margin")
    issues = find_label_issues(given, probs, filter_by="low_normalized_margin", n_jobs=1)
    return torch.from_numpy(1 - quality + issues)


def _mean_over_epochs(name: str, rows: Tensor, mean: Tensor | None) -> Tensor:
    """The mean of the tracked epochs [E, N], or else the one that training kept. [N]"""
    if len(rows) > 1:
        return rows.mean(0)
    if mean is None:
        raise RunError(
            f"{name} needs what several epochs say, and this run kept only the last; "
            "train again in a new folder"
        )
    return mean


def keep_labels(scores: Tensor, threshold: float | None) -> Tensor:
    """Who keeps its label: a score up to the threshold, or more probably clean by a mixture."""
    if threshold is None:
        return BetaMixture.fit(scores).noisy(scores) <= 0.5
    return scores <= threshold
