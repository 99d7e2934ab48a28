"""Numbers on a page, each with where it comes from, so that anyone can look it up."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import mean, stdev
from typing import Any

from markupsafe import Markup, escape

from drpl.runs.folder import Result

DASH = Markup('<span class="unknown" title="not known">–</span>')
DIARY = {  # of a run that is not finished: which row, or sum of rows, of history.jsonl
    "accuracy.last": ("accuracy", "last row"),
    "accuracy.best": ("accuracy", "best row of the latest stage"),
    "epochs": ("epoch", "number of rows"),
    "images": ("images", "sum of rows"),
    "seconds": ("seconds", "sum of rows"),
}


@dataclass(frozen=True)
class Number:
    """A value, its text, and the files it was read from.

    `key` is a path such as `detection.auroc` in JSON and TOML files, and an expression such as
    `flagged[given == 2].mean()` on the arrays of .npz files. `how` is what was done with the
    values of several runs or rows; without it the value is what the file says.
    """

    value: float | None
    runs: tuple[int, ...]  # positions in the page's list of runs
    file: str
    key: str
    digits: int = 0
    how: str = ""
    percent: bool = False  # a share, shown times a hundred

    def __str__(self) -> str:
        if self.value is None:
            return "–"
        return f"{self.value * (100 if self.percent else 1):,.{self.digits}f}"

    def __html__(self) -> str:
        if self.value is None:
            return DASH
        runs = " ".join(map(str, self.runs))
        how = Markup(' data-how="{}"').format(self.how) if self.how else ""
        said = f"{self.how} of " if self.how else ""
        return Markup(
            '<data value="{}" data-runs="{}" data-file="{}" data-key="{}"{} title="{}">{}</data>'
        ).format(
            repr(self.value),
            runs,
            self.file,
            self.key,
            how,
            f"{said}{self.key} in {self.file}",
            str(self),
        )


def name(text: str) -> Markup:
    """Something that a user named, which may look like a number and is none."""
    return Markup('<span class="name">{}</span>').format(text)


def code(text: str) -> Markup:
    """Something to type."""
    return Markup("<code>{}</code>").format(text)


@dataclass(frozen=True)
class Numbers:
    """Makes numbers about the runs of a page."""

    runs: Sequence[Result]

    def place(self, run: Result) -> int:
        """Which run of the page it is."""
        return next(k for k, one in enumerate(self.runs) if one is run)

    def known(self, run: Result, key: str, digits: int = 0, *, percent: bool = False) -> Number:
        """What `result.json` says, or of a run that is not finished the diary and the splits."""
        at, value = (self.place(run),), found(run.summary, key)
        if run.finished:
            return Number(value, at, "result.json", key, digits, "", percent)
        if key in DIARY:
            column, how = DIARY[key]
            return Number(value, at, "history.jsonl", column, digits, how)
        head, _, rest = key.partition(".")
        if head == "stages":
            position, _, rest = rest.partition(".")
            file = f"splits/{run.summary['stages'][int(position)]['stage']}.json"
        else:
            file = "noise.json" if head == "noise" else "config.toml"
            rest = rest if head == "noise" else f"run.{key}"
        return Number(value, at, file, rest, digits, "", percent)

    def spread(self, runs: Sequence[Result], key: str, digits: int, **more: Any) -> Markup:
        """Mean ± standard deviation over finished runs, where it is known."""
        told = [run for run in runs if found(run.summary, key) is not None]
        if not told:
            return DASH
        if len(told) == 1:
            return escape(self.known(told[0], key, digits, **more))
        values, at = [found(run.summary, key) for run in told], tuple(map(self.place, told))
        about = ("result.json", key, digits)
        middle = Number(mean(map(float, values)), at, *about, "mean", **more)
        around = Number(stdev(map(float, values)), at, *about, "standard deviation", **more)
        return Markup("{}&nbsp;±&nbsp;{}").format(middle, around)

    def count(self, runs: Sequence[Result]) -> Number:
        """How many runs there are."""
        at = tuple(map(self.place, runs))
        return Number(len(runs), at, "config.toml", "run.seed", 0, "number of runs")

    def among(
        self,
        run: Result,
        expression: str,
        value: Any,
        digits: int = 0,
        *,
        percent: bool = False,
        file: str = "samples.npz",
    ) -> Number:
        """What an expression on arrays of the folder gives."""
        plain = None if value is None or isnan(float(value)) else float(value)
        whole = plain is not None and digits == 0 and not percent
        shown = int(plain) if whole and plain is not None else plain
        return Number(shown, (self.place(run),), file, expression, digits, "", percent)


def found(tree: Any, key: str) -> Any:
    """The value at a path such as `stages.0.detection.auroc`; None if there is none."""
    for part in key.split("."):
        if isinstance(tree, dict):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def share(what: Any, among: Any) -> float | None:
    """The part of `among` that is `what`; None if there is none to ask."""
    return float(what[among].mean()) if among.any() else None
