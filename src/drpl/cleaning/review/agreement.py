"""Several people's decisions: how far they agree, and where they do not."""

import math
import warnings
from itertools import combinations
from typing import NamedTuple

from sklearn.metrics import cohen_kappa_score

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import ActiveDecisions
from drpl.cleaning.review.forecast import Forecaster
from drpl.cleaning.review.share import Interval

NO_CLASS = "\0"  # in place of the label of an image that is dropped


class Agreement(NamedTuple):
    """Two people who decided on the same images."""

    first: str
    second: str
    both: int  # images that both decided on
    same: int  # to which both gave the same label
    kappa: float | None  # Cohen's; None where they agree by having used one label only

    def describe(self) -> str:
        """The agreement in one line."""
        kappa = "" if self.kappa is None else f", Cohen's kappa {self.kappa:.2f}"
        return f"{self.first} and {self.second} agree on {self.same:,} of {self.both:,}{kappa}"


def measure_agreement(active: ActiveDecisions) -> list[Agreement]:
    """The agreement of every two people who have images in common."""
    people, pairs = active.by_person(), []
    for first, second in combinations(sorted(people), 2):
        ids = sorted(people[first].keys() & people[second].keys())
        if ids:
            a, b = ([people[who][i].label or NO_CLASS for i in ids] for who in (first, second))
            same = sum(one == other for one, other in zip(a, b, strict=True))
            pairs.append(Agreement(first, second, len(ids), same, _measure_kappa(a, b)))
    return pairs


def _measure_kappa(first: list[str], second: list[str]) -> float | None:
    """Agreement beyond chance; None where chance leaves no room for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0 / 0, where both always say the same one thing
        kappa = float(cohen_kappa_score(first, second))
    return None if math.isnan(kappa) else kappa


def summarize_review(cleaned: CleanedFolder, active: ActiveDecisions) -> str:
    """How far a review is, what it says of the data, and what people disagree on."""
    people, decided = active.by_person(), active.by_image()
    listed = sum(number in cleaned.issues.index for number in decided)
    lines = [f"{listed:,} of {len(cleaned.issues):,} issues are decided"]
    lines += [f"{who}: {len(own):,} decisions" for who, own in sorted(people.items())]
    forecast = Forecaster(cleaned).learn(decided)
    if forecast.rate and forecast.rate.high == 1 and not forecast.sampled:
        lines.append("how many labels are wrong is not known: the look will tell")
    elif forecast.rate:
        whence = f"{forecast.looked} decisions of the look" if forecast.sampled else "the networks"
        lines.append(f"{_say_percent(forecast.rate)} of all labels are wrong, by {whence}")
    if forecast.precision:
        lines.append(f"{_say_percent(forecast.precision)} of the list are wrong")
    lines += [pair.describe() for pair in measure_agreement(active)]
    disputed = active.find_disputed()
    if disputed:
        lines.append(f"{len(disputed):,} images are disputed; the latest decision holds:")
    for number in disputed:
        said = (f"{who}: {own[number].label or 'not any class'}" for who, own in people.items()
                if number in own)  # fmt: skip
        name = cleaned.samples.at[number, "path"] or f"image {number}"
        lines.append(f"  {name}: {'; '.join(said)}")
    return "\n".join(lines)


def _say_percent(rate: Interval) -> str:
    return f"{rate.low:.1%} to {rate.high:.1%}"
