"""The tables of a page, made of numbers that can be looked up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from drpl.report.load import Arrays, format_run, group_by_case, group_by_method, read_samples
from drpl.report.numbers import DASH, Number, Numbers, tag_name
from drpl.report.paper import find_published
from drpl.runs.folder import Result

SUSPICIOUS = 20  # rows of the list of labels
DETECTION = {  # heads, and keys of result.json
    "AUROC": "auroc",
    "TPR": "tpr",
    "FPR": "fpr",
    "precision": "precision",
    "recall": "recall",
}
OUTCOMES = {  # of labels, as expressions on the arrays of samples.npz
    "clean, and the model agrees with the label": "~wrong & (suggested == given)",
    "clean, but the model sees another class": "~wrong & (suggested != given)",
    "noisy, and the model sees the true class": "wrong & in_distribution & (suggested == true)",
    "noisy, and the model believes the wrong label": "wrong & in_distribution & "
    "(suggested == given)",
    "noisy, and the model sees a third class": "wrong & in_distribution & (suggested != given) & "
    "(suggested != true)",
    "shows none of the classes": "~in_distribution",
}

UNKNOWN = {"–", str(DASH)}  # what a cell says where nothing is known

Item = TypeVar("Item")
Columns = Mapping[str, Callable[[Item], Any]]  # from a head to what makes its cells


@dataclass(frozen=True)
class Table:
    """Heads and rows; cells are text, names or numbers."""

    heads: list[str]
    rows: list[list[Any]]

    @classmethod
    def build(cls, items: Iterable[Item], columns: Columns[Item]) -> "Table":
        """A row for each item."""
        return cls(list(columns), [[make(item) for make in columns.values()] for item in items])

    def drop_unknown(self) -> "Table":
        """The table without columns in which nothing is known."""
        columns = zip(*self.rows, strict=True)
        kept = [k for k, cells in enumerate(columns) if {*map(str, cells)} - UNKNOWN]
        return Table([self.heads[k] for k in kept], [[row[k] for k in kept] for row in self.rows])


def tabulate_results(numbers: Numbers, runs: Sequence[Result]) -> Table:
    """A row for each noise and method: means over the seeds that are finished."""

    def summarize(key: str, digits: int) -> Callable[[list[Result]], Any]:
        return lambda seeds: numbers.summarize(seeds, key, digits)

    columns: dict[str, Callable[[list[Result]], Any]] = {
        "noise": lambda seeds: _name_noise(seeds[0]),
        "method": lambda seeds: tag_name(seeds[0].method),
        "seeds": numbers.count,
        "accuracy, last (%)": summarize("accuracy.last", 2),
        "best (%)": summarize("accuracy.best", 2),
        "flagged": summarize("flagged", 0),
        **{head: summarize(f"detection.{key}", 3) for head, key in DETECTION.items()},
        "seconds": summarize("seconds", 0),
    }
    if any(_quote_paper(numbers, run, key).value for run in runs for key in ("last", "best")):
        columns["paper, last (%)"] = lambda seeds: _quote_paper(numbers, seeds[0], "last")
        columns["paper, best (%)"] = lambda seeds: _quote_paper(numbers, seeds[0], "best")
    cases = [group_by_method(mine) for mine in group_by_case(runs).values()]
    return Table.build([seeds for methods in cases for seeds in methods.values()], columns)


def _name_noise(run: Result) -> Any:
    return tag_name(run.summary["noise"]["spec"] or "none added")


def _quote_paper(numbers: Numbers, run: Result, key: str) -> Number:
    """What the paper prints for such a run."""
    s = run.summary
    cells = find_published(s["dataset"], s["noise"]["spec"], s["method"])
    values = [value for cell in cells if (value := getattr(cell, key)) is not None]
    return Number(values[0] if values else None, numbers.locate(run), "published.csv", key, 2)


def tabulate_progress(numbers: Numbers, runs: Sequence[Result]) -> Table:
    """A row for each run that is still training."""

    def count_splits(run: Result) -> Number:
        count, at = len(run.summary["stages"]), numbers.locate(run)
        return Number(count, at, "splits", "json files", 0, "number of files")

    columns: Columns[Result] = {
        "run": lambda run: tag_name(format_run(run)),
        "stage": lambda run: tag_name(run.history[-1]["stage"] if run.history else "not begun"),
        "epochs so far": lambda run: numbers.read(run, "epochs"),
        "accuracy now (%)": lambda run: numbers.read(run, "accuracy.last", 2),
        "best (%)": lambda run: numbers.read(run, "accuracy.best", 2),
        "splits": count_splits,
        "seconds": lambda run: numbers.read(run, "seconds"),
    }
    return Table.build(runs, columns)


def tabulate_runs(numbers: Numbers, runs: Sequence[Result]) -> Table:
    """A row for each run by itself."""
    columns: Columns[Result] = {
        "folder": lambda run: tag_name(str(run.folder)),
        "method": lambda run: tag_name(run.method),
        "noise": _name_noise,
        "seed": lambda run: numbers.read(run, "seed"),
        "state": lambda run: "finished" if run.finished else "training",
        "accuracy, last (%)": lambda run: numbers.read(run, "accuracy.last", 2),
        "AUROC": lambda run: numbers.read(run, "detection.auroc", 4),
        "flagged": lambda run: numbers.read(run, "flagged"),
        "epochs": lambda run: numbers.read(run, "epochs"),
        "images shown": lambda run: numbers.read(run, "images"),
        "seconds": lambda run: numbers.read(run, "seconds", 1),
    }
    return Table.build(runs, columns)


def tabulate_splits(numbers: Numbers, run: Result) -> Table | None:
    """How each stage of a run divided the samples."""

    def read(key: str, digits: int) -> Callable[[int], Number]:
        return lambda k: numbers.read(run, f"stages.{k}.{key}", digits)

    stages = run.summary["stages"]
    columns: Columns[int] = {
        "after stage": lambda k: tag_name(stages[k]["stage"]),
        "threshold": read("threshold", 3),
        "labels kept": read("labelled", 0),
        "labels lost": read("unlabelled", 0),
        **{head: read(f"detection.{key}", 3) for head, key in DETECTION.items()},
    }
    return Table.build(range(len(stages)), columns) if stages else None


def tabulate_classes(numbers: Numbers, run: Result) -> Table | None:
    """Every class: how many of its labels look wrong, and what they should be."""
    samples, classes = read_samples(run), run.summary["classes"]
    if samples is None:
        return None
    given, flagged = samples["given"], samples["flagged"].astype(bool)
    heads = ["class", "images", "flagged", "flagged (%)", "most often seen instead", "so often"]
    rows = []

    def share(what: str, among: str, part: NDArray[Any], whole: NDArray[Any]) -> Number:
        value = part[whole].mean() if whole.any() else None
        return numbers.compute(run, f"{what}[{among}].mean()", value, 1, percent=True)

    for c, label in enumerate(classes):
        mine, here = given == c, f"(given == {c})"
        row = [
            tag_name(label),
            numbers.compute(run, f"{here}.sum()", mine.sum()),
            numbers.compute(run, f"(flagged & {here}).sum()", (flagged & mine).sum()),
            share("flagged", f"given == {c}", flagged, mine),
            *_find_replacement(numbers, run, samples, c),
        ]
        if "wrong" in samples:
            wrong = samples["wrong"].astype(bool)
            row += [
                share("wrong", f"given == {c}", wrong, mine),
                share("flagged", f"wrong & {here}", flagged, wrong & mine),
                share("wrong", f"flagged & {here}", wrong, flagged & mine),
            ]
        rows.append(row)
    if "wrong" in samples:
        heads += ["really wrong (%)", "of these found (%)", "flagged rightly (%)"]
    return Table(heads, rows)


def _find_replacement(numbers: Numbers, run: Result, samples: Arrays, c: int) -> list[Any]:
    """Which other class the model sees most among the flagged images of a class, and how often."""
    moved = (samples["given"] == c) & samples["flagged"].astype(bool) & (samples["suggested"] != c)
    if not moved.any():
        return ["–", "–"]
    counts = np.bincount(samples["suggested"][moved])
    most = int(counts.argmax())
    expression = f"((given == {c}) & flagged & (suggested == {most})).sum()"
    name = tag_name(run.summary["classes"][most])
    return [name, numbers.compute(run, expression, counts[most])]


def tabulate_suspicious(numbers: Numbers, run: Result) -> Table | None:
    """The labels that are most probably wrong."""
    samples = read_samples(run)
    if samples is None:
        return None

    def read(key: str) -> Callable[[Any], Number]:
        return lambda row: numbers.compute(run, f"{key}[{row.id}]", samples[key][row.id], 3)

    columns: Columns[Any] = {
        "image": lambda row: tag_name(row.path or f"image {row.id}"),
        "given label": lambda row: tag_name(row.given_label),
        "suggested label": lambda row: tag_name(row.suggested_label),
        "confidence": read("confidence"),
        "loss": read("loss"),
        "p(noisy)": read("p_noisy"),
    }
    return Table.build(run.suspicious(SUSPICIOUS).itertuples(), columns)


def tabulate_outcomes(numbers: Numbers, run: Result) -> Table | None:
    """What became of clean and noisy labels, where the truth is known."""
    samples = read_samples(run)
    if samples is None or "wrong" not in samples:
        return None
    table = pd.DataFrame(samples).astype({"wrong": bool, "in_distribution": bool})
    rows = []
    for what, expression in OUTCOMES.items():
        mask = table.eval(expression, engine="python")
        number = numbers.compute(run, f"({expression}).sum()", mask.sum())
        share = numbers.compute(run, f"({expression}).mean()", mask.mean(), 1, percent=True)
        rows.append([what, number, share])
    return Table(["what an image is", "images", "share (%)"], rows)
