"""The mini benchmark: every method under the paper's four kinds of noise, on two CPU cores.

    python -m benchmarks.mini [--out FOLDER]        hours of one core, half of that on two
    python -m benchmarks.mini --methods NAME ...    these rows alone; the others stay as they are

Real images, the paper's proportions, a network small enough for a laptop: 1,200 images of six
classes of Fashion-MNIST at 14 x 14 pixels, the other four classes being the intruders; and, where
its files are, 3,000 images of CIFAR-10N at 16 x 16 with the worse of their human labels. The rows
that the paper's claim rests on are run with seeds 1 to 3, the others with seed 1. A run that was
stopped goes on where it was.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.paper import put_among
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from drpl.experiments.confusion import learn_confusion
from drpl.experiments.grid import Comparison, compare, write_comparison
from drpl.experiments.study import TRACK, score_runs
from drpl.files import write_atomic, write_json
from drpl.registry import METHODS
from drpl.report.table import tabulate_stages, to_csv
from drpl.runs.execute import list_versions
from drpl.runs.experiment import Execution

FASHION = "fashion-mnist"
HUMAN = "cifar10n:worse_label"
OUTSIDE = ("Shirt", "Coat", "Sneaker", "Bag")
NOISES = ("nonuniform:0.4", "uniform:0.6", "ood-nonuniform:0.5", "ood:0.6")
MAIN = ("cross_entropy", "mixup", "joint", "bootstrap", "drpl", "drpl:literal")
LATER = ("elr", "elr_plus", "sop", "pls", "disc", "dsos", "moit", "promix", "sncf")  # than DRPL
OTHERS = tuple(name for name in METHODS if name not in (*MAIN, *LATER))
SEEDS = (1, 2, 3)
PARTS = ((MAIN, SEEDS), (OTHERS, SEEDS[:1]), (LATER, SEEDS))
DETECTED = ("cross_entropy", "mixup", "nlnl", "drpl")  # whose evidence every detector scores
DEBIAN = Path("/usr/share/datasets")


def main() -> None:
    words = argparse.ArgumentParser(description="The mini benchmark.")
    words.add_argument("--out", type=Path, default=Path("runs/mini"), help="the runs")
    words.add_argument("--results", type=Path, default=Path("benchmarks/results/mini"))
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--methods", nargs="+", choices=[m for part, _ in PARTS for m in part])
    words.add_argument("--jobs", type=int)
    asked = words.parse_args()
    began = time.monotonic()
    parts = [*fashion(asked), *human(asked)]
    whole = Comparison(asked.results, [r for part in parts for r in part.results], {})
    if asked.methods:
        put_rows_among(whole, asked.results)
    else:
        write_comparison(whole)
        detected = score_runs(run for run in whole.results if run.method in DETECTED)
        write_atomic(asked.results / "detectors.csv", to_csv(detected))
    tables = [pd.read_csv(asked.results / f"{name}.csv") for name in ("table", "stages")]
    write_atomic(asked.results / "summary.md", summary(*tables))
    failures = {str(cell): why for part in parts for cell, why in part.failures.items()}
    seconds = sum(result.summary["seconds"] for result in whole.results)
    write_json(
        asked.results / "about.json",
        {
            "command": "make mini",
            "methods of this call": asked.methods or "all",
            "seeds": {seeds: list(methods) for seeds, methods in list_seeds().items()},
            "seconds of training": round(seconds),
            "seconds of this call": round(time.monotonic() - began),
            "failures": failures,
            "versions": list_versions(),
        },
    )
    print(f"wrote {asked.results / 'table.csv'}")


def list_seeds() -> dict[str, Sequence[str]]:
    """Which methods have which seeds on Fashion-MNIST."""
    return {
        "1 to 3": [name for methods, seeds in PARTS if seeds == SEEDS for name in methods],
        "1": [name for methods, seeds in PARTS if seeds != SEEDS for name in methods],
    }


def put_rows_among(runs: Comparison, results: Path) -> None:
    """Rows of these runs in the tables that there are; table.md and figures have all methods."""
    cases = [*((FASHION, noise) for noise in NOISES), (HUMAN, "none")]
    methods = [name for part, _ in PARTS for name in part]
    for name, now in (("table", runs.table), ("stages", tabulate_stages(runs.results))):
        path = results / f"{name}.csv"
        write_atomic(path, to_csv(put_among(pd.read_csv(path), now, cases, methods)))


def fashion(asked: argparse.Namespace) -> list[Comparison]:
    """Fashion-MNIST under the four noises."""
    more = {"noises": NOISES, **prepare_fashion(asked.out / "fashion-mnist", asked.data_dir)}
    return [compared(FASHION, methods, seeds, asked, more) for methods, seeds in choose(asked)]


def choose(asked: argparse.Namespace) -> list[tuple[Sequence[str], Sequence[int]]]:
    """The methods that are asked for, with their seeds."""
    wanted = [([m for m in part if m in (asked.methods or part)], seeds) for part, seeds in PARTS]
    return [(methods, seeds) for methods, seeds in wanted if methods]


def prepare_fashion(
    out: Path, data_dir: Path | None, size: int = 14, limit: int = 1200
) -> dict[str, Any]:
    """What `compare` takes for the small Fashion-MNIST; which classes look alike is learnt once."""
    read_options = ReadOptions(size=size, limit=limit, data_dir=data_dir, outside=OUTSIDE)
    try:
        data = load(FASHION, read_options)
    except DataError:
        read_options = replace(read_options, data_dir=DEBIAN)
        data = load(FASHION, read_options)
    alike = out / "confusion.npz"
    if not alike.exists():
        found = learn_confusion(
            data, runs=out / "confusion", preset="mini", execution=Execution(quiet=True)
        )
        found.write(alike)
    return {"out": out, "read_options": read_options, "confusion": alike}


def human(asked: argparse.Namespace) -> list[Comparison]:
    """CIFAR-10N, if it is there."""
    read_options = ReadOptions(size=16, limit=3000, data_dir=asked.data_dir)
    try:
        load(HUMAN, read_options)
    except DataError as error:
        print(f"without CIFAR-10N: {error}")
        return []
    more = {"out": asked.out / "cifar10n", "read_options": read_options}
    methods = [name for part, _ in choose(asked) for name in part]
    return [compared(HUMAN, methods, SEEDS[:1], asked, more)]


def compared(
    data: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    asked: argparse.Namespace,
    more: dict[str, Any],
) -> Comparison:
    """A part of the grid."""
    shared = {"preset": "mini", "jobs": asked.jobs, "track_every": TRACK}
    return compare(data, methods=methods, seeds=seeds, **shared, **more)


def summary(cells: pd.DataFrame, stages: pd.DataFrame) -> str:
    """Means over seeds, a row a method and a column a noise, as README and docs have them."""
    parts = []
    for title, value, digits in (
        ("accuracy last (%)", "accuracy_last", 2),
        ("accuracy best (%)", "accuracy_best", 2),
        ("AUROC", "auroc", 3),
    ):
        parts.append(side_by_side(cells, title, "method", value, digits))
    own = stages[stages.method.isin(["cross_entropy", "drpl"])]
    own = own.assign(loss=own.method + ", " + own.stage)
    parts.append(side_by_side(own, "AUROC of the loss after", "loss", "auroc", 3))
    return "\n".join(parts)


def side_by_side(table: pd.DataFrame, title: str, row: str, value: str, digits: int) -> str:
    """One table in Markdown: mean ± deviation over seeds."""
    cases = (table.dataset + ", " + table.noise).str.removesuffix(", none")
    order = list(dict.fromkeys(cases))
    lines = [f"| {title} | {' | '.join(order)} |", f"| --- |{' ---: |' * len(order)}"]
    for name in dict.fromkeys(table[row]):
        cells = []
        for case in order:
            found = table[(table[row] == name) & (cases == case)][value]
            spread = f" ± {found.std():.{digits}f}" if len(found) > 1 else ""
            cells.append(f"{found.mean():.{digits}f}{spread}" if len(found) else "–")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
