"""What the decisions change: every label of a cleaned data set, and who changed it why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import MODEL, ActiveDecisions, Decision, read_decisions

AUDIT = ("id", "path", "from", "to", "who", "when", "why")  # columns of audit.csv


class Change(NamedTuple):
    """One row of `audit.csv`."""

    id: int
    path: str
    before: str
    after: str  # nothing where the image is dropped
    who: str
    when: str
    why: str

    def describe(self) -> str:
        """The change in one line."""
        where = self.path or f"image {self.id}"
        return f"{where}: {self.before} -> {self.after or 'dropped'} ({self.who}: {self.why})"


@dataclass(frozen=True)
class Correction:
    """All labels of a cleaned data set after the decisions, and what they change."""

    cleaned: CleanedFolder
    labels: pd.Series  # by id, without the dropped images
    changes: list[Change]
    disputed: list[int]  # ids that people gave different labels; the latest decision was taken

    @classmethod
    def build(cls, cleaned: CleanedFolder, accept_above: float | None = None) -> "Correction":
        """What people decided and, if asked, what the model is sure enough of."""
        active = ActiveDecisions(read_decisions(cleaned))
        decided = active.by_image()
        labels = cleaned.samples["given_label"].copy()
        changes = []
        for decision in (*decided.values(), *_follow_model(cleaned, decided, accept_above)):
            row = cleaned.samples.loc[decision.id]
            if decision.action == "keep" or decision.label == row.given_label:
                continue
            labels[decision.id] = decision.label
            why = (decision.who, decision.time, decision.why)
            changes.append(Change(decision.id, row.path, row.given_label, decision.label, *why))
        dropped = [change.id for change in changes if not change.after]
        disputed = active.find_disputed()
        return cls(cleaned, labels.drop(dropped), sorted(changes), disputed)

    @property
    def dropped(self) -> list[Change]:
        """The changes that leave an image out."""
        return [change for change in self.changes if not change.after]

    def find_emptied(self) -> list[str]:
        """Classes that lost their last image."""
        had, have = set(self.cleaned.samples["given_label"]), set(self.labels)
        return [name for name in self.cleaned.classes if name in had - have]

    def describe(self) -> str:
        """How much changes."""
        gone, model = len(self.dropped), sum(change.who == MODEL for change in self.changes)
        text = (
            f"{len(self.labels):,} images, {len(self.changes) - gone:,} with a new label, "
            f"{gone:,} dropped"
        )
        if model:
            text += f"; {model:,} of these changes {'are' if model > 1 else 'is'} the model's"
        if self.disputed:
            count = len(self.disputed)
            text += f"; {count:,} {'images are' if count > 1 else 'image is'} disputed, the latest "
            text += "decision was taken"
        return text


def _follow_model(
    cleaned: CleanedFolder, decided: dict[int, Decision], above: float | None
) -> Iterator[Decision]:
    """The suggestions that are followed though nobody looked; dated by the run, not by today.

    The model may be sure which class an image most resembles and yet not that its label is wrong,
    so both have to be probable enough.
    """
    if above is None:
        return
    from drpl.cleaning.review.forecast import Forecaster

    issues = cleaned.issues
    both = issues[["confidence", "p_noisy"]].min(axis=1)
    sure = issues[(issues["verdict"] == "mislabelled") & (both >= above)]
    p_noisy = pd.Series(Forecaster(cleaned).learn(decided).p_noisy, cleaned.samples.index)
    for row in sure.itertuples():
        if row.Index not in decided:
            why = (
                f"suggestion accepted above {above:g}, "
                f"p_noisy {row.p_noisy:.2f}, confidence {row.confidence:.2f}"
            )
            if decided:
                wrong = f"wrong with probability {p_noisy[row.Index]:.2f}"
                why += f"; {wrong} after {len(decided):,} decisions"
            yield Decision(cleaned.time, MODEL, row.Index, "accept", row.suggested_label, why)
