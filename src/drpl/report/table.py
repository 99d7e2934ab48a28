"""Runs side by side: a row a run for programs, a row a method for people, the paper beside it."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import pandas as pd

from drpl.files import format_table
from drpl.noise.spec import parse_spec
from drpl.report.load import group_by_method
from drpl.report.paper import PaperFigure, find_published
from drpl.runs.folder import Result

CELL = ("dataset", "noise", "rate", "method", "seed")
FOUND = ("auroc", "tpr", "fpr")
COLUMNS = (*CELL, "accuracy_last", "accuracy_best", *FOUND, "seconds", "images")
STAGE_COLUMNS = (*CELL, "stage", *FOUND)
DASH = "–"

HEAD = """\
Mean ± standard deviation over seeds. *Last* is the accuracy after the last epoch, what one gets;
*best* is that of the best epoch on the test set and flatters. AUROC, TPR and FPR are those of the
labels that a method keeps, clean samples being the positives, as in the paper: the share of clean
labels kept, and of noisy ones kept by mistake. Costs are means: seconds of training and testing,
and images shown to a network.
"""
PAPER = """\
"Paper" is what its authors print for a single run at full scale, for data of this name.
"""


def tabulate_cells(results: Sequence[Result]) -> pd.DataFrame:
    """One row a run."""
    rows = [
        {
            **describe_cell(result),
            **{f"accuracy_{key}": result.accuracy[key] for key in ("last", "best")},
            **(result.detection or {}),
            **{key: result.summary[key] for key in ("seconds", "images")},
        }
        for result in results
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def tabulate_stages(results: Sequence[Result]) -> pd.DataFrame:
    """One row for each split of each run: how well every stage detects."""
    rows = [
        {**describe_cell(result), "stage": stage["stage"], **(stage.get("detection") or {})}
        for result in results
        for stage in result.summary["stages"]
    ]
    return pd.DataFrame(rows, columns=list(STAGE_COLUMNS))


def describe_cell(result: Result) -> dict[str, Any]:
    """What a run is: the columns that both tables begin with."""
    s = result.summary
    return {
        "dataset": s["dataset"],
        "noise": s["noise"]["spec"] or "none",
        "rate": read_rate(s["noise"]),
        "method": result.method,
        "seed": s["seed"],
    }


def read_rate(noise: Mapping[str, Any]) -> float:
    """The rate that was asked for, of all parts together; the nominal one if a file decides."""
    if noise["spec"] is None:
        return 0.0
    rates = [value for _, value in parse_spec(noise["spec"])]
    known = [value for value in rates if value is not None]
    return round(sum(known), 12) if len(known) == len(rates) else noise["nominal"]


def to_csv(table: pd.DataFrame) -> str:
    """The table as text; equal figures give equal bytes."""
    return format_table(table)


def to_markdown(
    cases: Mapping[str | None, Sequence[Result]],
    pictures: Mapping[str | None, str],
    failures: Mapping[str, str],
) -> str:
    """A table for each noise, one row a method; then what failed and why."""
    every = [result for runs in cases.values() for result in runs]
    parts = ["# Comparison\n"]
    if every:
        parts += [_describe_data(every), HEAD]
        if _find_paper_figures(every):
            parts.append(PAPER)
    for noise, runs in cases.items():
        parts.append(f"## {runs[0].summary['dataset']}, {noise or 'no noise added'}\n")
        parts.append(tabulate_methods(runs))
        notes = sorted({figure.note for figure in _find_paper_figures(runs) if figure.note})
        parts += [f"Paper: {note}.\n" for note in notes]
        if noise in pictures:
            parts.append(f"![ROC]({pictures[noise]})\n")
    if failures:
        alike: dict[str, list[str]] = {}
        for name, reason in failures.items():
            alike.setdefault(reason, []).append(name)
        lines = [f"- {'; '.join(names)}: {reason}\n" for reason, names in alike.items()]
        parts += [f"## {len(failures)} failed\n", "".join(lines)]
    return "\n".join(parts)


def _describe_data(results: Sequence[Result]) -> str:
    """What the runs were trained on, and what is to be known about it."""
    lines = []
    for s in [result.summary for result in results]:
        line = f"{s['dataset']}: {s['samples']:,} training images, {len(s['classes'])} classes."
        lines += [line, *(f"Note: {note}." for note in s["notes"])]
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _find_paper_figures(runs: Sequence[Result]) -> list[PaperFigure]:
    """All that the paper prints for the methods of these runs."""
    cells = dict.fromkeys(
        (s["dataset"], s["noise"]["spec"], s["method"]) for s in (run.summary for run in runs)
    )
    return [figure for key in cells for figure in find_published(*key)]


def tabulate_methods(runs: Sequence[Result]) -> str:
    """One row a method; the paper's columns only where it has something to say."""
    figures = _find_paper_figures(runs)
    accuracy = any(figure.best is not None for figure in figures)
    detection = any(figure.tpr is not None for figure in figures)
    flagged = any(figure.flagged is not None for figure in figures)
    lines = []
    for method, mine in group_by_method(runs).items():
        name = mine[0].summary["method"]  # the paper's figures are for every row of a method
        theirs = [figure for figure in figures if figure.method == name]
        line = {"method": f"`{method}`", "seeds": str(len(mine))}
        for key in ("last", "best"):
            line[f"{key} (%)"] = format_spread([run.accuracy[key] for run in mine], 2)
        if accuracy:
            line |= {f"paper {key}": _quote(theirs, key) for key in ("last", "best")}
        if flagged:
            shares = [run.summary["flagged"] / run.summary["samples"] for run in mine]
            line |= {
                "flagged": format_spread(shares, 4),
                "paper flagged": _quote(theirs, "flagged"),
            }
        for key in FOUND:
            line[key.upper()] = format_spread([(run.detection or {}).get(key) for run in mine], 4)
        if detection:
            line |= {f"paper {key.upper()}": _quote(theirs, key) for key in ("tpr", "fpr")}
        for key in ("seconds", "images"):
            line[key] = f"{mean(run.summary[key] for run in mine):,.0f}"
        lines.append(line)
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    rows = [list(lines[0]), rule, *(list(line.values()) for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def format_spread(values: Sequence[float | None], digits: int) -> str:
    """Mean ± standard deviation, or a dash where a figure is not known."""
    known = [value for value in values if value is not None]
    if not known:
        return DASH
    deviation = f" ± {stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{mean(known):.{digits}f}{deviation}"


def _quote(figures: Sequence[PaperFigure], key: str) -> str:
    """The paper's figure, or a dash where it prints none."""
    known = [value for figure in figures if (value := getattr(figure, key)) is not None]
    return f"{known[0]:.2f}" if known else DASH
