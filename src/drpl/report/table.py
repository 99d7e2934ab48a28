"""Runs side by side: a row a run for programs, a row a method for people, the paper beside it."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import pandas as pd

from drpl.noise.spec import parse_spec
from drpl.report.paper import Figure, printed
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


def cells_table(results: Sequence[Result]) -> pd.DataFrame:
    """One row a run."""
    rows = []
    for result in results:
        found = result.detection or {}
        rows.append(
            {
                **cell(result),
                "accuracy_last": result.accuracy["last"],
                "accuracy_best": result.accuracy["best"],
                **{key: found.get(key) for key in FOUND},
                "seconds": result.summary["seconds"],
                "images": result.summary["images"],
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def stages_table(results: Sequence[Result]) -> pd.DataFrame:
    """One row for each split of each run: how well every stage detects."""
    rows = [
        {**cell(result), "stage": stage["stage"]}
        | {key: (stage.get("detection") or {}).get(key) for key in FOUND}
        for result in results
        for stage in result.summary["stages"]
    ]
    return pd.DataFrame(rows, columns=list(STAGE_COLUMNS))


def cell(result: Result) -> dict[str, Any]:
    """What a run is: the columns that both tables begin with."""
    s = result.summary
    return {
        "dataset": s["dataset"],
        "noise": s["noise"]["spec"] or "none",
        "rate": rate(s["noise"]),
        "method": s["method"],
        "seed": s["seed"],
    }


def rate(noise: Mapping[str, Any]) -> float:
    """The rate that was asked for, of all parts together; the nominal one if a file decides."""
    if noise["spec"] is None:
        return 0.0
    rates = [value for _, value in parse_spec(noise["spec"])]
    known = [value for value in rates if value is not None]
    return round(sum(known), 12) if len(known) == len(rates) else noise["nominal"]


def as_csv(table: pd.DataFrame) -> str:
    """The table as text; equal figures give equal bytes."""
    return str(table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def markdown(
    cases: Mapping[str | None, Sequence[Result]],
    pictures: Mapping[str | None, str],
    failures: Mapping[str, str],
) -> str:
    """A table for each noise, one row a method; then what failed, in words."""
    every = [result for runs in cases.values() for result in runs]
    parts = ["# Comparison\n"]
    if every:
        parts += [data_line(every), HEAD]
        if any(paper(runs) for runs in cases.values()):
            parts.append(PAPER)
    for noise, runs in cases.items():
        parts.append(f"## {runs[0].summary['dataset']}, {noise or 'no noise added'}\n")
        parts.append(method_table(runs))
        notes = sorted({figure.note for figure in paper(runs) if figure.note})
        parts += [f"Paper: {note}.\n" for note in notes]
        if noise in pictures:
            parts.append(f"![ROC]({pictures[noise]})\n")
    if failures:
        parts.append(f"## {len(failures)} failed\n")
        parts.append(reasons(failures))
    return "\n".join(parts)


def reasons(failures: Mapping[str, str]) -> str:
    """A line for each reason, with all that failed for it."""
    alike: dict[str, list[str]] = {}
    for name, sentence in failures.items():
        alike.setdefault(sentence, []).append(name)
    return "".join(f"- {'; '.join(names)}: {sentence}\n" for sentence, names in alike.items())


def data_line(results: Sequence[Result]) -> str:
    """What the runs were trained on, and what is to be known about it."""
    lines = []
    for s in [result.summary for result in results]:
        line = f"{s['dataset']}: {s['samples']:,} training images, {len(s['classes'])} classes."
        lines += [line, *(f"Note: {note}." for note in s["notes"])]
    return "\n".join(dict.fromkeys(lines)) + "\n"


def paper(runs: Sequence[Result]) -> list[Figure]:
    """All that the paper prints for the methods of these runs."""
    cells = dict.fromkeys(
        (s["dataset"], s["noise"]["spec"], s["method"]) for s in (run.summary for run in runs)
    )
    return [figure for key in cells for figure in printed(*key)]


def method_table(runs: Sequence[Result]) -> str:
    """One row a method; the paper's columns only where it has something to say."""
    figures = paper(runs)
    accuracy = any(figure.best is not None for figure in figures)
    detection = any(figure.tpr is not None for figure in figures)
    head = ["method", "seeds", "last (%)", "best (%)"]
    head += ["paper last", "paper best"] * accuracy
    head += ["AUROC", "TPR", "FPR"]
    head += ["paper TPR", "paper FPR"] * detection
    head += ["seconds", "images"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for method in dict.fromkeys(run.summary["method"] for run in runs):
        mine = [run for run in runs if run.summary["method"] == method]
        theirs = [figure for figure in figures if figure.method == method]
        line = [f"`{method}`", str(len(mine))]
        line += [spread([run.accuracy[key] for run in mine], 2) for key in ("last", "best")]
        line += [quoted(theirs, key, 2) for key in ("last", "best")] * accuracy
        line += [spread([(run.detection or {}).get(key) for run in mine], 4) for key in FOUND]
        line += [quoted(theirs, key, 2) for key in ("tpr", "fpr")] * detection
        line += [f"{mean(run.summary[key] for run in mine):,.0f}" for key in ("seconds", "images")]
        lines.append(line)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def spread(values: Sequence[float | None], digits: int) -> str:
    """Mean ± standard deviation, or a dash where a figure is not known."""
    known = [value for value in values if value is not None]
    if not known:
        return DASH
    deviation = f" ± {stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{mean(known):.{digits}f}{deviation}"


def quoted(figures: Sequence[Figure], key: str, digits: int) -> str:
    """The paper's figure, or a dash where it prints none."""
    known = [value for figure in figures if (value := getattr(figure, key)) is not None]
    return f"{known[0]:.{digits}f}" if known else DASH
