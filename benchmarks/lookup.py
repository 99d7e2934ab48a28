"""Figures of the result files, each with where it stands: a file, a column, and which rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.missing import add_missing
from drpl.noise.spec import parse_spec

ROOT = Path(__file__).parents[1]
PUBLISHED = "src/drpl/report/published.csv"
GRID, MINI = "benchmarks/results/paper", "benchmarks/results/mini"
HUMAN = "cifar10n"  # data sets that bring wrong labels of their own
KINDS = {"nonuniform": "NU-ID", "uniform": "U-ID", "ood-nonuniform": "NU-OOD", "ood": "U-OOD"}
PEOPLE = "people"  # the kind of the noise that people made
TITLES = {
    (PUBLISHED, "imagenet32"): "*paper*: ImageNet32",
    (PUBLISHED, "cifar10"): "*paper*: CIFAR-10",
    (GRID, "cifar10"): "CIFAR-10, features",
    (GRID, "cifar10-six"): "CIFAR-10 (six classes), features",
    (GRID, "imagenet32-mini"): "imagenet32-mini, features",
    (GRID, "fashion-mnist"): "Fashion-MNIST, features",
    (MINI, "fashion-mnist"): "Fashion-MNIST, from scratch",
    (MINI, "cifar10n:worse_label"): "CIFAR-10N, from scratch",
}
QUOTED = ("imagenet32", "cifar10")  # the paper's data sets whose figures stand before ours
PRINTED = {"accuracy_best": "best", "accuracy_last": "last"}  # what its columns are called

Where = Mapping[str, Any]  # column -> the value, or a list of values, that a row must have there


@dataclass(frozen=True)
class Figure:
    """The mean of a column over some rows of a file; `note` says which of several it is."""

    value: float
    file: str  # from the project's folder
    column: str
    where: Where
    rows: int  # how many it is the mean of
    note: str = ""
    missing: int = 0  # runs that should be among them and are not


@dataclass(frozen=True)
class Ground:
    """A data set of one benchmark, or of the paper."""

    folder: str  # or PUBLISHED
    dataset: str

    @property
    def title(self) -> str:
        """What pages call it."""
        return TITLES.get((self.folder, self.dataset), self.dataset)

    def file(self, name: str = "table") -> str:
        """One of the benchmark's tables; the paper has one for all."""
        return PUBLISHED if self.folder == PUBLISHED else f"{self.folder}/{name}.csv"


class Results:
    """The result files below a folder, read once; a missing one is an empty table."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.read = cache(self._read)
        self._read_planned = cache(lambda file: add_missing(self.read(file)))

    def _read(self, file: str) -> pd.DataFrame:
        path = self._root / file
        return pd.read_csv(path) if path.exists() else pd.DataFrame()

    def find_mean(self, file: str, column: str, where: Where, note: str = "") -> Figure | None:
        """The figure, or None where no row has it."""
        column = PRINTED.get(column, column) if file == PUBLISHED else column
        rows = select(self.read(file), where)
        count = int(rows[column].count()) if column in rows else 0
        if not count:
            return None
        missing = self._count_missing(file, where)
        return Figure(float(rows[column].mean()), file, column, where, count, note, missing)

    def _count_missing(self, file: str, where: Where) -> int:
        """Runs of a benchmark's methods that are not there, whichever of its tables is asked."""
        folder, _, _ = file.rpartition("/")
        if folder not in (GRID, MINI):
            return 0
        asked = {name: where[name] for name in ("dataset", "noise", "method") if name in where}
        rows = select(self._read_planned(f"{folder}/table.csv"), asked)
        return int((~rows["ran"].astype(bool)).sum()) if len(rows) else 0

    def find_best(
        self, file: str, column: str, where: Where, methods: Sequence[str]
    ) -> Figure | None:
        """The highest mean of some methods; what any of them lacks is missing from it."""
        found = [
            self.find_mean(file, column, {**where, "method": method}, f"`{method}`")
            for method in methods
        ]
        known = [one for one in found if one]
        whole = [one for one in known if not one.missing] or known
        best = max(whole, key=lambda one: one.value, default=None)
        return best and replace(best, missing=sum(one.missing for one in known))

    def list_values(self, file: str, column: str, where: Where | None = None) -> list[Any]:
        """What a column has, each once, in the order of the file."""
        rows = select(self.read(file), where or {})
        return list(dict.fromkeys(rows[column].dropna())) if column in rows else []

    def list_grounds(self) -> list[Ground]:
        """The data sets of the paper, of the grid on features and of the mini benchmark."""
        measured = [
            Ground(folder, dataset)
            for folder in (GRID, MINI)
            for dataset in self.list_values(f"{folder}/table.csv", "dataset")
        ]
        return [*(Ground(PUBLISHED, dataset) for dataset in QUOTED), *measured]

    def list_levels(self, ground: Ground, kind: str) -> dict[str, float]:
        """The noises of a kind that a data set was measured under, with their rates."""
        noises = self.list_values(ground.file(), "noise", {"dataset": ground.dataset})
        if ground.dataset.startswith(HUMAN):
            return {"none": 0.0} if kind == PEOPLE else {}
        parsed = {noise: parse_spec(noise)[0] for noise in noises if noise != "none"}
        return {noise: rate or 0.0 for noise, (name, rate) in parsed.items() if name == kind}


def select(table: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows that have these values."""
    for column, wanted in where.items():
        if column not in table:
            return table[:0]
        table = table[table[column].isin(wanted if isinstance(wanted, list) else [wanted])]
    return table
