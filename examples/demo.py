"""Sixty percent of the digits' labels are wrong. Three methods learn from them.

python examples/demo.py --seeds 1 2 3
"""

import argparse
import json
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table

import drpl

METHODS = ("cross_entropy", "mixup", "drpl")
NOISE = "uniform:0.6"


def main() -> None:
    """Train, compare, and show the labels that are most probably wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--save", type=Path, help="write the figures to this JSON file")
    wanted = parser.parse_args()
    results = {
        method: [
            drpl.train(
                "digits",
                method=method,
                noise=NOISE,
                seed=seed,
                out=wanted.out / method / f"seed-{seed}",
            )
            for seed in wanted.seeds
        ]
        for method in METHODS
    }
    console = Console()
    console.print(comparison(results, len(wanted.seeds)))
    first = results["drpl"][0]
    console.print(suspects(first))
    page = drpl.report([runs[0] for runs in results.values()], wanted.out / "report.html")
    if wanted.save:
        every = [run.summary for runs in results.values() for run in runs]
        wanted.save.parent.mkdir(parents=True, exist_ok=True)
        wanted.save.write_text(json.dumps(every, indent=2) + "\n")
    console.print(f"Report: {page}\nAll labels, with suggestions: {first.folder / 'samples.csv'}")


def comparison(results: dict[str, list[drpl.Result]], seeds: int) -> Table:
    """One row a method, means over the seeds."""
    table = Table(title=f"digits, 60 % wrong labels, mean of {seeds} seed{'s' * (seeds > 1)}")
    for column in ("method", "accuracy last", "best", "AUROC", "TPR", "FPR", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, runs in results.items():
        accuracy = [
            f"{mean(run.accuracy[key] or 0 for run in runs):.2f}" for key in ("last", "best")
        ]
        detection = [
            f"{mean((run.detection or {})[key] or 0 for run in runs):.4f}"
            for key in ("auroc", "tpr", "fpr")
        ]
        table.add_row(
            method, *accuracy, *detection, f"{mean(run.summary['seconds'] for run in runs):.0f}"
        )
    return table


def suspects(result: drpl.Result) -> Table:
    """The ten labels that are most probably wrong."""
    table = Table(title="most suspicious labels found by drpl")
    for column in ("image", "given", "suggested", "confidence", "p(noisy)"):
        table.add_column(column, justify="right")
    for row in result.suspicious(10).itertuples():
        table.add_row(
            str(row.id),
            row.given_label,
            row.suggested_label,
            f"{row.confidence:.3f}",
            f"{row.p_noisy:.4f}",
        )
    return table


if __name__ == "__main__":
    main()
