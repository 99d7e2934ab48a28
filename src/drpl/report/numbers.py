"""Numbers on a page, each with where it comes from, so that anyone can look it up."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import mean, stdev
from typing import Any

from markupsafe import Markup, escape

from drpl.runs.folder import Result

DASH = Markup('<span class="unknown" title="not known">–</span>')
FROM_HISTORY = {  # of a run that is not finished: which row, or sum of rows, of history.jsonl
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
        attributes = {
            "value": repr(self.value),
            "data-runs": " ".join(map(str, self.runs)),
            "data-file": self.file,
            "data-key": self.key,
            **({"data-how": self.how} if self.how else {}),
            "title": f"{self.how and f'{self.how} of '}{self.key} in {self.file}",
        }
        pairs = Markup(" ").join(Markup('{}="{}"').format(*pair) for pair in attributes.items())
        return Markup("<data {}>{}</data>").format(pairs, str(self))


def tag_name(text: str) -> Markup:
    """Mark what a user named: it may look like a number and is none."""
    return Markup('<span class="name">{}</span>').format(text)


@dataclass(frozen=True)
class Numbers:
    """Makes numbers about the runs of a page."""

    runs: Sequence[Result]

    def locate(self, *runs: Result) -> tuple[int, ...]:
        """Which runs of the page these are."""
        return tuple(next(k for k, one in enumerate(self.runs) if one is run) for run in runs)

    def read(self, run: Result, key: str, digits: int = 0, *, percent: bool = False) -> Number:
        """What `result.json` says, or of an unfinished run its history, splits and settings."""
        at, value = self.locate(run), look_up(run.summary, key)
        if run.finished:
            return Number(value, at, "result.json", key, digits, "", percent)
        if key in FROM_HISTORY:
            column, how = FROM_HISTORY[key]
            return Number(value, at, "history.jsonl", column, digits, how)
        head, _, rest = key.partition(".")
        if head == "stages":
            position, _, rest = rest.partition(".")
            file = f"splits/{run.summary['stages'][int(position)]['stage']}.json"
        else:
            file = "noise.json" if head == "noise" else "config.toml"
            rest = rest if head == "noise" else f"run.{key}"
        return Number(value, at, file, rest, digits, "", percent)

    def summarize(self, runs: Sequence[Result], key: str, digits: int) -> Markup:
        """Mean ± standard deviation over finished runs, where it is known."""
        known = [run for run in runs if look_up(run.summary, key) is not None]
        if not known:
            return DASH
        if len(known) == 1:
            return escape(self.read(known[0], key, digits))
        values, at = [float(look_up(run.summary, key)) for run in known], self.locate(*known)
        middle = Number(mean(values), at, "result.json", key, digits, "mean")
        around = Number(stdev(values), at, "result.json", key, digits, "standard deviation")
        return Markup("{}&nbsp;±&nbsp;{}").format(middle, around)

    def count(self, runs: Sequence[Result]) -> Number:
        """How many runs there are."""
        at = self.locate(*runs)
        return Number(len(runs), at, "config.toml", "run.seed", 0, "number of runs")

    def compute(
        self, run: Result, expression: str, value: Any, digits: int = 0, *, percent: bool = False
    ) -> Number:
        """What an expression on the arrays of `samples.npz` gives."""
        plain = None if value is None or isnan(value) else float(value)
        if plain is not None and digits == 0 and not percent:
            plain = int(plain)
        return Number(plain, self.locate(run), "samples.npz", expression, digits, "", percent)


def look_up(tree: Any, key: str) -> Any:
    """The value at a path such as `stages.0.detection.auroc`; None if there is none."""
    for part in key.split("."):
        if isinstance(tree, dict):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree
