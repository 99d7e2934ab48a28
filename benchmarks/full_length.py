"""The paper's recipe at its own length, from scratch, on images that two cores can carry.

    python -m benchmarks.full_length --data-dir FOLDER [--methods NAME ...]
    python -m benchmarks.full_length --data-dir FOLDER --finished     tables of what there is
    python -m benchmarks.full_length --quick                          every line in a minute

20,000 images of CIFAR-10 at 16 x 16 pixels, a PreAct ResNet-18 of width 16, one seed; 40 % uniform
noise, and the worse of CIFAR-10N's human labels. Epochs, rates and batches are the paper's, so a
run of DRPL looks at 12 million images: hours of two cores. One run at a time has all of them. What
was stopped goes on, and rows of methods that a call does not run stay as they are.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmarks import memorised
from benchmarks.paper import put_among
from drpl.data.sources import ReadOptions, load
from drpl.experiments.grid import Grid, run_grid
from drpl.files import slugify, write_atomic, write_json
from drpl.report.figures import draw_case
from drpl.report.load import group_by_case
from drpl.report.style import assign_strokes
from drpl.report.table import tabulate_cells, tabulate_stages, to_csv
from drpl.runs.execute import list_versions
from drpl.runs.experiment import Execution
from drpl.runs.folder import Result

RESULTS = Path("benchmarks/results/full-length")
METHODS = ("cross_entropy", "mixup", "joint", "drpl:literal")
SIDE, WIDTH, SEED = 16, 16, 1
TRACK = 10  # epochs between looks at every loss
CASES = (("cifar10", "uniform:0.4"), ("cifar10n:worse_label", None))
QUICK = (("digits", "uniform:0.4"),)
BRIEF = {"epochs": 6, "lr": [[1, 0.1]], "batch_size": 64}
GUARD = 0.35  # after so few epochs DRPL may believe no label, which depends on the processor
FIGURES = ("accuracy", "losses", "roc")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The paper's recipe at its own length.")
    parser.add_argument("--out", type=Path, default=Path("runs/full-length"), help="the runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--data-dir", type=Path, help="where data are [$DRPL_DATA, or else data]")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--finished", action="store_true", help="train nothing, write the tables")
    parser.add_argument("--quick", action="store_true", help="all of it, tiny, on the digits")
    asked = parser.parse_args(words)
    if not asked.finished:
        for grid in plan(asked):
            run_grid(grid)
    write(load_finished(asked), asked.results)


def plan(asked: argparse.Namespace) -> Iterator[Grid]:
    """A grid for each method and set of labels, the cheapest methods first."""
    options = ReadOptions(size=SIDE, data_dir=asked.data_dir)
    for method in (name for name in METHODS if name in asked.methods):
        for data, noise in list_cases(asked):
            yield Grid(
                load(data, ReadOptions() if asked.quick else options),
                asked.out / slugify(data),
                (method,),
                noises=(noise,),
                seeds=(SEED,),
                presets=("digits",) if asked.quick else ("cifar10",),
                settings=shorten(method) if asked.quick else {"width": WIDTH},
                execution=Execution(track_every=1 if asked.quick else TRACK),
                jobs=1,
            )


def list_cases(asked: argparse.Namespace) -> Sequence[tuple[str, str | None]]:
    """The sets of labels: data, and the noise that is added."""
    return QUICK if asked.quick else CASES


def shorten(method: str) -> dict[str, object]:
    """Settings of a run that only shows that every line works."""
    stages = {
        "joint": ("relabel", "retrain"),
        "drpl:literal": ("relabel", "warmup", "detect", "final"),
    }
    schedules = [f"{stage}_schedule" for stage in stages.get(method, ())] or ["schedule"]
    begin = {"relabel.begin": 1} if method in stages else {}
    guard = {"min_labelled": GUARD} if method == "drpl:literal" else {}
    return {"width": 4, **begin, **guard, **dict.fromkeys(schedules, BRIEF)}


def load_finished(asked: argparse.Namespace) -> list[Result]:
    """The runs that came to their end, of this call or earlier ones, by labels and method."""
    folders = [
        asked.out / slugify(data) / "runs" / slugify(noise or "none") / slugify(method)
        for data, noise in list_cases(asked)
        for method in METHODS
    ]
    paths = [folder / f"seed-{SEED}" for folder in folders]
    return [Result.load(path) for path in paths if (path / "result.json").exists()]


def write(runs: Sequence[Result], results: Path) -> None:
    """Tables, figures, and how they came about; rows of runs that are not here stay."""
    if not runs:
        print("no run has come to its end yet; run the same command again")
        return
    cases = [(data, noise or "none") for data, noise in (*CASES, *QUICK)]
    tables = {
        "table": tabulate_cells(runs),
        "stages": tabulate_stages(runs),
        "losses": pd.DataFrame(row for run in runs for row in memorised.follow(run)),
    }
    for name, table in tables.items():
        path = results / f"{name}.csv"
        if path.exists():
            table = put_among(pd.read_csv(path), table, cases, METHODS)
        write_atomic(path, to_csv(table))
    strokes = assign_strokes([run.method for run in runs])
    for case, mine in group_by_case(runs).items():
        for picture in draw_case(case, mine, strokes):
            if picture.name.endswith(FIGURES):
                write_atomic(results / f"{picture.name}.png", picture.render_png(dpi=100))
    seconds = sum(run.summary["seconds"] for run in runs)
    about = {
        "command": "python -m benchmarks.full_length",
        "images": runs[0].summary["samples"],
        "runs of this call": [f"{run.summary['dataset']}, {run.method}" for run in runs],
        "hours of training": round(seconds / 3600, 2),
        "versions": list_versions(),
    }
    write_json(results / "about.json", about)
    print(f"wrote {results}")


if __name__ == "__main__":
    main()
