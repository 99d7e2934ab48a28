"""The detectors: each a function (evidence, given labels) -> score [N], higher = noisier.

E observations, N samples, y the given labels, p the probabilities of the latest observation.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drpl.detection import consensus
from drpl.detection.collision import collision_entropy
from drpl.detection.evidence import Evidence
from drpl.detection.gaussians import fit_upper_gaussian
from drpl.detection.mixture import BetaMixture
from drpl.errors import ConfigError, RunError

Detector = Callable[[Evidence, Tensor], Tensor]  # evidence, labels [N] -> score [N]


def _remember_last(find: Callable[..., Any]) -> Callable[..., Any]:
    """Answer what was asked last once more: stages share features and labels, runs features."""
    last: list[Any] = []  # the arguments and the answer

    def ask(*asked: Any) -> Any:
        if not last or not all(map(_is_same, last[0], asked)):
            last[:] = asked, find(*asked)
        return last[1]

    return ask


def _is_same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) else one == other


_find_voters = _remember_last(consensus.find_voters)
_find_around = _remember_last(consensus.find_around)
_estimate_wrong_shares = _remember_last(consensus.estimate_wrong_shares)


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
    return _disagree(evidence.probs, labels)


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


def target_disagreement(evidence: Evidence, labels: Tensor) -> Tensor:
    """1 - t[y] where argmax t = y, otherwise 2 - t[y] (Liu et al., 2020).

    t is the running mean of its predictions that a run of `elr` holds each sample to; other runs
    have the mean over the second half of their epochs.
    """
    mean = evidence.mean_probs if evidence.targets is None else evidence.targets
    if mean is None:
        raise RunError(_explain_missing_epochs("target_disagreement"))
    mean = mean.double()
    return _disagree(mean / mean.sum(1, keepdim=True).clamp(min=1e-12), labels)


def interpolation_entropy(evidence: Evidence, labels: Tensor) -> Tensor:
    """The collision entropy of the mean of prediction and label (Albert et al., 2022).

    Above log 2 it also ranks images of no class above those of another class.
    """
    return collision_entropy(evidence.probs, labels)


def loss_gaussians(evidence: Evidence, labels: Tensor) -> Tensor:
    """p(upper of two Gaussians | latest loss), as PLS (Albert et al., 2023) finds noisy samples."""
    return fit_upper_gaussian(evidence.now)


def neighbour_agreement(evidence: Evidence, labels: Tensor) -> Tensor:
    """How little a label agrees with the soft label of its neighbours (Ortego et al., 2021).

    -log of the soft label at y, at most log 100, and log 100 more where another class has most.
    """
    vectors, classes = _get_vectors("neighbour_agreement", evidence), evidence.probs.shape[1]
    soft = consensus.share_twice(labels, _find_around(vectors, classes), classes)
    apart = consensus.measure_disagreement(soft, labels).double()
    return apart - (soft.argmax(1) != labels) * math.log(consensus.FARTHEST)


def simifeat_vote(evidence: Evidence, labels: Tensor) -> Tensor:
    """1 - q[y] where argmax q = y, otherwise 2 - q[y], q the neighbours' votes (Zhu et al., 2022).

    By one view of each sample; the paper takes the majority of 21 augmented ones.
    """
    votes, _ = _ask_voters("simifeat_vote", evidence, labels)
    return _disagree(votes, labels)


def simifeat_rank(evidence: Evidence, labels: Tensor) -> Tensor:
    """-log q[y] less the class's quantile at the share of right labels (Zhu et al., 2022).

    That share of each given class is what HOC estimates.
    """
    votes, near = _ask_voters("simifeat_rank", evidence, labels)
    scores = -(votes.gather(1, labels[:, None]).squeeze(1) + consensus.TINY).log()
    wrong = _estimate_wrong_shares(labels, near, votes.shape[1])
    for c in labels.unique().tolist():
        mine = labels == c
        scores[mine] -= scores[mine].quantile(1 - float(wrong[c]))
    return scores


def _ask_voters(name: str, evidence: Evidence, labels: Tensor) -> tuple[Tensor, Tensor]:
    """SimiFeat's votes [N, C], and who cast them beside the sample itself [N, k]."""
    classes = evidence.probs.shape[1]
    distances, near = _find_voters(_get_vectors(name, evidence), classes)
    return consensus.weigh_votes(distances.double(), near, labels, classes), near


def _get_vectors(name: str, evidence: Evidence) -> Tensor:
    """What samples are compared by."""
    if evidence.vectors is None:
        raise RunError(
            f"{name} compares samples by their vectors, and this evidence has none; train on "
            "features, as with --features lite0, or by a method that learns an embedding"
        )
    return evidence.vectors


def _disagree(probs: Tensor, labels: Tensor) -> Tensor:
    """1 - p[y] where argmax p = y, otherwise 2 - p[y]. [N]"""
    own = probs.double().gather(1, labels[:, None]).squeeze(1)
    return 1 - own + (probs.argmax(1) != labels)


def _explain_missing_epochs(name: str) -> str:
    return (
        f"{name} needs what several epochs say, and this run kept only the last; "
        "train again in a new folder"
    )


def _mean_over_epochs(name: str, rows: Tensor, mean: Tensor | None) -> Tensor:
    """The mean of the tracked epochs [E, N], or else the one that training kept. [N]"""
    if len(rows) > 1:
        return rows.mean(0)
    if mean is None:
        raise RunError(_explain_missing_epochs(name))
    return mean


def keep_labels(scores: Tensor, threshold: float | None) -> Tensor:
    """Who keeps its label: a score up to the threshold, or more probably clean by a mixture."""
    if threshold is None:
        return BetaMixture.fit(scores).noisy(scores) <= 0.5
    return scores <= threshold
