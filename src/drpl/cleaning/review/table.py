"""The issues in memory, so that one page of a hundred thousand is found at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from drpl.cleaning.folder import VERDICTS, Cleaned
from drpl.cleaning.review.decisions import ACTIONS, ActiveDecisions, Decision
from drpl.errors import DataError, did_you_mean

DECIDED = ACTIONS[:-1]  # an undo leaves an image undecided
STATES = ("undecided", "decided", *DECIDED)
LARGEST = 500  # rows at once

Row = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """Which issues are asked for; what is None is not asked."""

    given: str | None = None
    suggested: str | None = None
    verdict: str | None = None
    state: str | None = None
    sort: str = "worst"
    start: int = 0
    size: int = 60


class Table:
    """The issues and the state of each."""

    def __init__(self, cleaned: Cleaned, standing: ActiveDecisions) -> None:
        self.cleaned, self.standing = cleaned, standing
        issues = cleaned.issues
        self.ids = issues.index.to_numpy()
        self.place = np.arange(len(issues))
        self.given = codes(issues["given_label"], cleaned.classes)
        self.suggested = codes(issues["suggested_label"], cleaned.classes)
        self.verdict = codes(issues["verdict"], VERDICTS)
        self.confidence = issues["confidence"].to_numpy()
        self.columns = {name: issues[name].tolist() for name in issues}  # quicker than its rows
        self.sorts = {  # the last key decides first
            "worst": (self.place,),
            "confidence": (self.place, -self.confidence),
            "class": (self.place, self.verdict, self.given),
            "id": (self.ids,),
        }
        self.orders: dict[str, NDArray[np.intp]] = {}
        self.position = dict(zip(self.ids.tolist(), range(len(issues)), strict=True))
        self.state = np.full(len(issues), -1, np.int8)  # the number of the action; -1: undecided
        for number in standing.every():
            self.refresh(number)

    def refresh(self, number: int) -> None:
        """Take note of what now stands on an image."""
        decision = self.standing.on(number)
        if number in self.position:
            state = DECIDED.index(decision.action) if decision else -1
            self.state[self.position[number]] = state

    def page(self, query: Query) -> dict[str, Any]:
        """The rows asked for, and how many there are in all."""
        wanted = self.order(query.sort)[self.mask(query)[self.order(query.sort)]]
        start = max(0, query.start)
        shown = wanted[start : start + min(max(1, query.size), LARGEST)]
        rows = [self.row(position) for position in shown.tolist()]
        return {"total": len(wanted), "start": start, "rows": rows}

    def order(self, sort: str) -> NDArray[np.intp]:
        """All issues in the order asked for."""
        if sort not in self.sorts:
            raise DataError(f"unknown sort {sort!r}; {did_you_mean(sort, self.sorts)}")
        if sort not in self.orders:
            self.orders[sort] = np.lexsort(self.sorts[sort])
        return self.orders[sort]

    def mask(self, query: Query) -> NDArray[np.bool_]:
        """Which issues match."""
        classes = self.cleaned.classes
        match = np.ones(len(self.ids), bool)
        for column, value, names in (
            (self.given, query.given, classes),
            (self.suggested, query.suggested, classes),
            (self.verdict, query.verdict, VERDICTS),
        ):
            if value is not None:
                match &= column == (names.index(value) if value in names else -1)
        if query.state is not None:
            if query.state not in STATES:
                raise DataError(
                    f"unknown state {query.state!r}; {did_you_mean(query.state, STATES)}"
                )
            if query.state in DECIDED:
                match &= self.state == DECIDED.index(query.state)
            else:
                match &= (self.state >= 0) == (query.state == "decided")
        return match

    def row(self, position: int) -> Row:
        """One issue for the page."""
        issue = {name: values[position] for name, values in self.columns.items()}
        number = int(self.ids[position])
        return {
            "id": number,
            "path": issue["path"],
            "given": issue["given_label"],
            "suggested": issue["suggested_label"],
            "p_noisy": known(issue["p_noisy"]),
            "confidence": known(issue["confidence"]),
            "verdict": issue["verdict"],
            "near_given": [int(word) for word in issue["near_given"].split()],
            "near_suggested": [int(word) for word in issue["near_suggested"].split()],
            "decision": shown(self.standing.on(number)),
        }

    def progress(self) -> dict[str, int]:
        """How many issues there are, and how many are decided."""
        return {"total": len(self.ids), "decided": int((self.state >= 0).sum())}

    def counts(self) -> dict[str, dict[str, int]]:
        """How many issues each class, verdict and state has."""
        classes = self.cleaned.classes
        decided = self.state[self.state >= 0]
        return {
            "given": tally(self.given, classes),
            "suggested": tally(self.suggested, classes),
            "verdict": tally(self.verdict, VERDICTS),
            "state": {
                "undecided": len(self.state) - len(decided),
                "decided": len(decided),
                **tally(decided, DECIDED),
            },
        }


def shown(decision: Decision | None) -> dict[str, str] | None:
    """A decision for the page."""
    if decision is None:
        return None
    return {key: getattr(decision, key) for key in ("time", "who", "action", "label")}


def known(value: float) -> float | None:
    """A number, or None where it is not one."""
    return float(value) if np.isfinite(value) else None


def codes(values: pd.Series, names: tuple[str, ...]) -> NDArray[np.int64]:
    """The number of each name."""
    return np.asarray(pd.Index(names).get_indexer(pd.Index(values)))


def tally(column: NDArray[Any], names: tuple[str, ...]) -> dict[str, int]:
    """How often each name is there."""
    return dict(zip(names, np.bincount(column, minlength=len(names)).tolist(), strict=True))
