"""From losses to two sets: samples whose label is kept, and samples that lose it."""

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from drpl.detection.evidence import Evidence
from drpl.detection.mixture import BetaMixture
from drpl.distributed import world
from drpl.errors import TrainingError

FEWEST = 6  # labelled samples below which a class, or anything, can hardly be learnt


@dataclass(frozen=True)
class Split:
    """Who is labelled and who is not, and why."""

    stage: str
    losses: Tensor  # [N] what it was judged by
    noisy: Tensor  # [N] probability of noise
    threshold: float
    clean: Tensor  # [N] bool: keeps its label
    mixture: BetaMixture | None  # None: decided otherwise
    notes: tuple[str, ...]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The per-sample tables that go to disk."""
        return {name: getattr(self, name).numpy() for name in ("losses", "noisy", "clean")}

    def to_record(self) -> dict[str, Any]:
        """What goes to disk beside the per-sample tables."""
        return {
            "stage": self.stage,
            "threshold": self.threshold,
            "labelled": int(self.clean.sum()),
            "unlabelled": int((~self.clean).sum()),
            "mixture": self.mixture.to_record() if self.mixture else None,
            "notes": list(self.notes),
        }


def detect(
    evidence: Evidence,
    labels: Tensor,
    threshold: float,
    *,
    min_labelled: float = 0.0,
    lookup: bool = False,
) -> Split:
    """Split by the beta mixture of the latest losses: labelled where p(noisy) <= threshold.

    `min_labelled` guards the next stage against too few labelled samples: at least this share of
    the samples expected to be clean, in all and in each class, is kept, lowest losses first.
    """
    losses = evidence.now
    mixture = BetaMixture.fit(losses, lookup=lookup)
    noisy = mixture.noisy(losses)
    clean = noisy <= threshold
    notes = list(mixture.notes)
    classes = evidence.probs.shape[1]
    if min_labelled > 0:
        kept = _keep_enough(clean, losses, labels, noisy, classes, min_labelled)
        if added := int((kept & ~clean).sum()):
            notes.append(
                f"the threshold {threshold:g} left {int(clean.sum())} labelled samples, too few to "
                f"learn from; min_labelled added the {added} with the lowest losses"
            )
        clean = kept
    notes += note_scarce_classes(clean, labels, classes)
    return Split(evidence.stage, losses, noisy, threshold, clean, mixture, tuple(notes))


def _keep_enough(
    clean: Tensor, losses: Tensor, labels: Tensor, noisy: Tensor, classes: int, share: float
) -> Tensor:
    """`clean`, filled up from the lowest losses: to the wanted share, per class and in all.

    A few samples of every class stay in any case: a rare class that is lost is not found again.
    """
    kept = clean.clone()
    groups = [(labels == c).nonzero().flatten() for c in range(classes)]
    for group in [*groups, torch.arange(len(labels))]:
        wanted = max(FEWEST, round(share * float((1 - noisy[group]).sum())))
        missing = wanted - int(kept[group].sum())
        if missing > 0:
            candidates = group[~kept[group]]
            kept[candidates[losses[candidates].argsort(stable=True)[:missing]]] = True
    return kept


def divide(w: Tensor, p_threshold: float) -> tuple[Tensor, Tensor]:
    """Indices of who keeps its label, by the probability w that it is right, and of the others.

    Those are all, if (nearly) all keep theirs: either set is walked over by every process.
    """
    keep, few = w > p_threshold, FEWEST * world()
    require_labelled(keep, "lower p_threshold, or change the length of the warm-up (begin)", few)
    unlabelled = (~keep).nonzero().flatten()
    return keep.nonzero().flatten(), unlabelled if len(unlabelled) >= few else torch.arange(len(w))


def require_labelled(clean: Tensor, advice: str, fewest: int = FEWEST, stage: str = "") -> None:
    """Refuse to learn from a handful of labels; the stage is the one after which they are left."""
    if (labelled := int(clean.sum())) < fewest:
        after = f"after {stage!r} " if stage else ""
        raise TrainingError(
            f"{after}only {labelled} of {len(clean)} samples keep their label, "
            f"too few to learn from; {advice}"
        )


def keep_lowest(scores: Tensor, labels: Tensor, classes: int, most: int) -> Tensor:
    """Whose scores are the lowest of its class, up to so many of each; first come, if equal. [N]"""
    kept = torch.zeros_like(labels, dtype=torch.bool)
    for c in range(classes):
        mine = (labels == c).nonzero().flatten()
        kept[mine[scores[mine].argsort(stable=True)[:most]]] = True
    return kept


def note_scarce_classes(clean: Tensor, labels: Tensor, classes: int) -> list[str]:
    """A note if classes are left with hardly any labelled sample."""
    counts = torch.bincount(labels[clean], minlength=classes)
    scarce = (counts < FEWEST).nonzero().flatten().tolist()
    if not scarce:
        return []
    some = ", ".join(str(c) for c in scarce[:10])
    return [f"{len(scarce)} of {classes} classes keep fewer than {FEWEST} labels (numbers {some})"]
