"""The paper's grid on features: every method and detector under four noises at its levels.

    python -m benchmarks.paper [--data-dir FOLDER] [--sets NAME ...]     what was stopped goes on
    python -m benchmarks.paper --methods NAME ...                        these rows alone
    python -m benchmarks.paper --finished                                tables of what there is
    python -m benchmarks.paper --measure                                 what a run takes here
    python -m benchmarks.paper --quick                                   every line in a minute

The data are those of `benchmarks/features.py`; a set whose files are missing is left out, which is
said. Rows that the paper's claim rests on are run with seeds 1 to 5, the others with seeds 1 to 3.
Settings were chosen with seed 11 on other images (`benchmarks/tune_vectors.py`). With `--sets` or
`--methods` all other rows of the results stay as they are.
"""

import argparse
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

import drpl
from benchmarks import features, paper_tables
from benchmarks.features import Case
from drpl.data.dataset import DatasetSplits
from drpl.errors import DataError
from drpl.experiments.executors import ENGINES
from drpl.experiments.grid import Cell, Comparison, Grid
from drpl.files import slugify, write_atomic, write_json
from drpl.noise.spec import parse_spec
from drpl.registry import METHODS
from drpl.report import roc
from drpl.report.style import Picture, assign_strokes
from drpl.report.table import describe_cell, tabulate_cells, tabulate_stages, to_csv
from drpl.runs.execute import execute, list_versions
from drpl.runs.folder import Result
from drpl.runs.machine import count_cores

CLAIMED = ("cross_entropy", "mixup", "forward", "joint", "bootstrap", "drpl")  # and the literal one
OTHERS = tuple(name for name in METHODS if name not in CLAIMED)
SEEDS, FEWER = (1, 2, 3, 4, 5), (1, 2, 3)
TUNED = 11  # the seed of tuning and of measuring costs, which no table has
# Stage 1 as long as `joint` is trained, which was tuned; it is that method's first stage.
RELABEL = {
    "drpl:relabel": {"begin": 13, "window": 7},
    "drpl:relabel_schedule": {"epochs": 30, "lr": [[1, 0.05], [16, 0.005]]},
}
# By the mean loss of all networks, as `drpl clean` judges. It expects most labels to be right and
# keeps more of them; with up to 80 % noise fewer are better (tuned with the same seed and images).
OURS = {**RELABEL, "drpl:pool": True, "drpl:min_labelled": 0.35}
MEASURED = "uniform:0.4"
FIGURES = ("auroc", "tpr", "fpr", "precision", "average_precision")  # of detectors
DRAWN = ("cross_entropy", "mixup", "nlnl", "joint", "drpl", "drpl (literal)")  # ROC curves
CORES = 2  # that the forecast is for


@dataclass(frozen=True)
class Part:
    """Methods that are run with the same seeds and settings."""

    methods: Sequence[str]
    seeds: Sequence[int]
    settings: Mapping[str, Any] = field(default_factory=dict)


PARTS = (
    Part(CLAIMED, SEEDS, OURS),
    Part(("drpl:literal",), SEEDS, RELABEL),
    Part(OTHERS, FEWER),
)
QUICK_CASES = (
    Case(
        "digits",
        "digits",
        (None, "nonuniform:0.3", "ood:0.4"),
        ("8", "9"),
        (160, 100, 80),
    ),
    Case("imagenet32-mini", "no-such-folder", ()),  # one that is missing
)
QUICK_PARTS = (
    Part(("cross_entropy", "drpl"), (1, 2), OURS),
    Part(("drpl:literal",), (1,)),
    Part(("oracle_ssl",), (1,)),
)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The paper's grid on features.")
    parser.add_argument("--out", type=Path, default=Path("runs/paper"), help="the runs")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/paper"))
    parser.add_argument("--data-dir", type=Path, help="where data are [$DRPL_DATA, or else data]")
    parser.add_argument("--cache", type=Path, help="where features are kept")
    parser.add_argument("--sets", nargs="+", choices=[case.name for case in features.CASES])
    parser.add_argument("--methods", nargs="+", choices=[m for part in PARTS for m in part.methods])
    parser.add_argument("--jobs", type=int, default=count_cores(), help="runs at once")
    parser.add_argument("--measure", action="store_true", help="time one run of each method only")
    parser.add_argument("--finished", action="store_true", help="train nothing, write the tables")
    parser.add_argument("--quick", action="store_true", help="all of it, tiny, on the digits")
    asked = parser.parse_args(words)
    began = time.monotonic()
    if asked.finished:
        write([load_finished(asked.out)], [], asked, began)
        return
    known = QUICK_CASES if asked.quick else features.CASES
    parts: tuple[Part, ...] = QUICK_PARTS if asked.quick else PARTS
    cases = [case for case in known if not asked.sets or case.name in asked.sets]
    if asked.methods:
        parts = choose_methods(parts, asked.methods)
    sets = dict(read_all(cases, asked))
    if not sets:
        parser.error("there are no data; name the folder that has them with --data-dir")
    if asked.measure or asked.quick:
        measure(sets, parts, asked)
    for line in forecast(sets, parts, asked.results / "cost.csv"):
        print(line, flush=True)
    if not asked.measure:
        found = [run_part(*one, part, asked) for part in parts for one in sets.items()]
        missing = [case.name for case in cases if case not in sets]
        write(found, missing, asked, began)


def choose_methods(parts: Sequence[Part], wanted: Sequence[str]) -> tuple[Part, ...]:
    """The parts with the wanted methods alone; those that have none are left out."""
    chosen = (
        replace(part, methods=tuple(m for m in part.methods if m in wanted)) for part in parts
    )
    return tuple(part for part in chosen if part.methods)


def load_finished(out: Path) -> Comparison:
    """The runs of an earlier call that came to their end, in the order of the tables."""
    folders = {path.parent for path in out.glob("*/runs/*/*/*/result.json")}
    order = [slugify(method) for part in PARTS for method in part.methods]
    names = [case.name for case in (*features.CASES, *QUICK_CASES)]
    noises = [slugify(noise or "none") for case in features.CASES for noise in case.noises]

    def place(folder: Path) -> tuple[int, int, int, str]:
        name, _, noise, method, seed = folder.relative_to(out).parts
        column = noises.index(noise) if noise in noises else len(noises)
        return names.index(name), column, order.index(method), seed

    return Comparison(out, [Result.load(folder) for folder in sorted(folders, key=place)], {})


def read_all(cases: Sequence[Case], asked: argparse.Namespace) -> Iterator[tuple[Case, Grid]]:
    """The data of every case that is here, as a grid without methods."""
    for case in cases:
        try:
            data = features.read(case, asked.data_dir, asked.cache)
        except DataError as error:
            print(f"without {case.name}: {error}", flush=True)
            continue
        yield case, prepare(case, data, asked.out / case.name)


def prepare(case: Case, data: DatasetSplits, out: Path) -> Grid:
    """The grid of a case: its noises, and which classes look alike where it needs to be known."""
    alike = features.learn_alike(data, out) if data.outside is not None else None
    return Grid(data, out, (), noises=case.noises, confusion=alike)


def run_part(case: Case, grid: Grid, part: Part, asked: argparse.Namespace) -> Comparison:
    """The part's methods on one data set; finished runs are taken as they are."""
    print(f"{case.name}: {', '.join(part.methods)}", flush=True)
    return drpl.compare(
        grid.data,
        methods=part.methods,
        noises=grid.noises,
        seeds=part.seeds,
        out=grid.out,
        confusion=grid.confusion,
        settings=part.settings,
        jobs=asked.jobs,
    )


def measure(sets: Mapping[Case, Grid], parts: Sequence[Part], asked: argparse.Namespace) -> None:
    """Processor time of one run of each method on the first data set, in seconds: `cost.csv`.

    Unlike the time on the clock it hardly depends on what else the machine does.
    """
    rows, grid = [], next(iter(sets.values()))
    for part in parts:
        for method in part.methods:
            cell = Cell(MEASURED, method, TUNED)
            chosen = replace(grid, settings=part.settings)
            folder = asked.out / "cost" / slugify(method)
            shutil.rmtree(folder, ignore_errors=True)  # a finished run would take no time
            began = time.process_time()
            experiment = chosen.build_experiment(cell)
            result = execute(experiment, replace(grid.execution, folder=folder, quiet=True))
            trained = time.process_time()
            score_run(result.folder)
            seconds = (trained - began, time.process_time() - trained)
            names = ("seconds", "seconds of detectors")
            figures = {name: round(value, 2) for name, value in zip(names, seconds, strict=True)}
            rows.append({"method": method, **figures, "images": result.summary["images"]})
            print(rows[-1], flush=True)
    write_atomic(asked.results / "cost.csv", to_csv(pd.DataFrame(rows)))


def forecast(sets: Mapping[Case, Grid], parts: Sequence[Part], path: Path) -> Iterator[str]:
    """Hours of the whole grid by what one run of each method took, finished runs included."""
    if not path.exists():
        yield f"no forecast: {path} is made by --measure"
        return
    cost = pd.read_csv(path, index_col="method")
    each, whole = cost["seconds"] + cost["seconds of detectors"], 0.0
    cells = sum(len(case.noises) for case in sets)
    for part in parts:
        for method in part.methods:
            runs = cells * len(part.seeds)
            if method not in each:
                yield f"{method:<16} {runs:5} runs, of which no time is known"
                continue
            whole += runs * each[method]
            yield f"{method:<16} {runs:5} runs of {each[method]:6.1f} s"
    yield f"all: {whole / 3600:.1f} hours of one core, {whole / 3600 / CORES:.1f} of {CORES}"


def score_run(folder: Path) -> pd.DataFrame:
    """Every detector on a finished run, once; the scores of single samples are not kept."""
    path = folder / "detectors.csv"
    if not path.exists():
        write_atomic(path, to_csv(drpl.score(folder)))
        (folder / "scores.csv").unlink()
    return pd.read_csv(path).assign(folder=str(folder))


def score_all(runs: Sequence[Result], jobs: int) -> pd.DataFrame:
    """Means over seeds of every detector on every stage of every method under every noise."""
    cells = {str(run.folder): describe_cell(run) for run in runs}
    tables = [*ENGINES["local"](score_run, [run.folder for run in runs], jobs, 1)]
    table = pd.concat(tables).dropna(subset=["auroc"])  # what was skipped, or has nothing to find
    for name in ("dataset", "noise", "method"):
        table[name] = [cells[folder][name] for folder in table["folder"]]
    by = ["dataset", "noise", "method", "stage", "detector"]
    figures = [name for name in FIGURES if name in table]  # older runs lack some
    means = table.groupby(by)[figures].mean().round(4)
    order = {name: place for place, name in enumerate(dict.fromkeys(run.method for run in runs))}
    return means.reset_index().sort_values(
        "method", key=lambda names: names.map(order), kind="stable"
    )


def draw_rocs(runs: Sequence[Result], folder: Path) -> None:
    """ROC curves of a few methods, a figure for each data set and kind of noise at a main level."""
    cases: dict[tuple[str, str], dict[float, list[Result]]] = {}
    for run in runs:
        spec = run.summary["noise"]["spec"]
        if run.method in DRAWN and spec and paper_tables.is_main(spec):
            [(kind, rate)] = parse_spec(spec)
            levels = cases.setdefault((run.summary["dataset"], kind), {})
            levels.setdefault(rate or 0.0, []).append(run)
    for (dataset, kind), levels in cases.items():
        mine = levels[min(levels)]
        title = f"Labels kept: {dataset}, {mine[0].summary['noise']['spec']}"
        figure = roc.draw_methods(mine, assign_strokes([run.method for run in mine]), title)
        if figure is not None:
            picture = Picture(f"roc-{slugify(dataset)}-{kind}", title, figure)
            write_atomic(folder / f"{picture.name}.png", picture.render_png(dpi=100))


def keep_others(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The rows of an earlier call with those of this one in their places, in the tables' order."""
    cases = [(case.name, noise or "none") for case in features.CASES for noise in case.noises]
    return put_among(before, now, cases, [method for part in PARTS for method in part.methods])


def put_among(
    before: pd.DataFrame,
    now: pd.DataFrame,
    cases: Sequence[tuple[str, str]],
    methods: Sequence[str],
) -> pd.DataFrame:
    """Rows in place of earlier ones of the same cell, ordered by data set and noise, and method."""
    key = ["dataset", "noise", "method"]
    again = set(map(tuple, now[key].to_numpy()))
    kept = before[[tuple(row) not in again for row in before[key].to_numpy()]]
    whole, rows = pd.concat([kept, now]), [*map(name_row, methods)]
    places = [
        (cases.index((row.dataset, row.noise)), rows.index(row.method))
        for row in whole[key].itertuples()
    ]
    return whole.iloc[sorted(range(len(whole)), key=places.__getitem__)]


def name_row(method: str) -> str:
    """A method with an overlay as tables name it: drpl (literal)."""
    name, colon, overlay = method.partition(":")
    return f"{name} ({overlay})" if colon else name


def write(
    found: Sequence[Comparison], missing: Sequence[str], asked: argparse.Namespace, began: float
) -> None:
    """All files of the results."""
    out, runs = asked.results, [run for part in found for run in part.results]
    tables = {
        "table": tabulate_cells(runs),
        "stages": tabulate_stages(runs),
        "detectors": score_all(runs, asked.jobs),
    }
    for name, table in tables.items():
        path = out / f"{name}.csv"
        if (asked.sets or asked.methods) and path.exists():
            table = keep_others(pd.read_csv(path), table)
        write_atomic(path, to_csv(table))
    if not asked.methods:  # a figure has several methods
        draw_rocs(runs, out)
    paper_tables.write(out)
    failures = {str(cell): why for part in found for cell, why in part.failures.items()}
    about = {
        "command": "python -m benchmarks.paper",
        "sets of this call": asked.sets or "all",
        "methods of this call": asked.methods or "all",
        "encoder": f"{features.ENCODER}, {features.DIMENSIONS} principal components",
        "runs": len(pd.read_csv(out / "table.csv")),
        "runs of this call": len(runs),
        "left out": missing,
        "failures": failures,
        "seconds of training": round(sum(run.summary["seconds"] for run in runs)),
        "seconds of this call": round(time.monotonic() - began),
        "versions": list_versions(),
    }
    write_json(out / "about.json", about)
    print(f"wrote {out}; {len(failures)} runs failed")


if __name__ == "__main__":
    main()
