"""What each part of DRPL is worth: python -m benchmarks.ablations [--data-dir FOLDER] [--quick]

One setting at a time is changed from DRPL as this library runs it: on the vectors of
`benchmarks/features.py` with three seeds, and from scratch on the small Fashion-MNIST of
`benchmarks/mini.py` with one. What was stopped goes on; `--quick` tries every line in a minute.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import features, mini, paper
from drpl.errors import DataError
from drpl.experiments.grid import Grid, run_grid
from drpl.files import slugify, write_atomic, write_json
from drpl.noise.nonuniform import CIFAR10, MOVES
from drpl.report.table import DASH, format_spread, to_csv
from drpl.runs.execute import list_versions
from drpl.runs.experiment import compose_for
from drpl.runs.folder import Result
from drpl.runs.machine import count_cores

RESULTS = Path("benchmarks/results/ablations")
FEATURES, SCRATCH = "features", "from scratch"
SEEDS = {FEATURES: (1, 2, 3), SCRATCH: (1,)}
QUICK = ("drpl", "warm-up not loaded", "NU-OOD by row")  # what `--quick` tries
BASE = "drpl"
OURS = {name.removeprefix("drpl:"): value for name, value in paper.OURS.items()}  # on features
KINDS = ("NU-ID", "U-ID", "NU-OOD", "U-OOD")
FLIPS = 0.4  # the share of each class that moves, for four and five flips
STAGES = {  # each network of the base itself, and the split that it leads to
    "stage 1: relabelled": ("relabel", "relabel"),
    "stage 2: semi-supervised on the first split": ("detect", "detect"),
}
# Beta(a, a) with so small an a is 0 or 1: a batch is one of two orders of itself, and not mixed.
UNMIXED = 0.001
NO_PRIOR, NO_ENTROPY = (
    {f"{part}.{name}": 0.0 for part in ("relabel", "ssl")} for name in ("prior", "entropy")
)


@dataclass(frozen=True)
class Ablation:
    """One change to DRPL, or to its noise: then only under the kinds that it names."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    noises: Mapping[str, str] = field(default_factory=dict)  # by kind


ABLATIONS = {
    BASE: Ablation(),
    "literal": Ablation({"second_threshold": 0.5, "min_labelled": 0.0, "pool": False}),
    "second threshold 0.1": Ablation({"second_threshold": 0.1}),
    "second threshold 0.5": Ablation({"second_threshold": 0.5}),
    "`min_labelled` 0": Ablation({"min_labelled": 0.0}),
    "`min_labelled` 0.7": Ablation({"min_labelled": 0.7}),
    "stages not averaged": Ablation({"pool": False}),
    "first threshold 0.05": Ablation({"first_threshold": 0.05}),
    "first threshold 0.5": Ablation({"first_threshold": 0.5}),
    "window 1": Ablation({"relabel.window": 1}),
    "window 10": Ablation({"relabel.window": 10}),
    "look-up table": Ablation({"lookup": True}),
    "warm-up not loaded": Ablation({"ssl.warmup": "none"}),
    "forget 0": Ablation({"ssl.forget": 0.0}),
    "without R_A": Ablation(NO_PRIOR),
    "without R_H": Ablation(NO_ENTROPY),
    "without both": Ablation(NO_PRIOR | NO_ENTROPY),
    "no mixup": Ablation({"ssl.alpha": UNMIXED}),
    "NU-OOD by row": Ablation(noises={"NU-OOD": "ood-nonuniform:0.5,direction=row"}),
}
FOUR_FLIPS = "four flips"  # of CIFAR-10, without dog to cat


@dataclass(frozen=True)
class Place:
    """Where ablations are tried: a grid of DRPL as it is, and the noise of each kind."""

    name: str
    grid: Grid
    noises: Mapping[str, str]  # by kind
    few: tuple[str, ...] = ()  # kinds that only the base and changes of the noise are tried under


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Ablations of DRPL.")
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"), help="the runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--data-dir", type=Path, help="where data are [$DRPL_DATA, or else data]")
    parser.add_argument("--cache", type=Path, help="where features are kept")
    parser.add_argument("--only", choices=(FEATURES, SCRATCH), help="one of the two")
    parser.add_argument("--jobs", type=int, default=count_cores(), help="runs at once")
    parser.add_argument("--quick", action="store_true", help="all of it, tiny, on the digits")
    asked = parser.parse_args(words)
    places = list_quick(asked) if asked.quick else list_places(asked)
    rows, failures = [], dict[str, str]()
    for place in places:
        for name, ablation in list_ablations(place, asked.out, QUICK if asked.quick else None):
            found = run_grid(plan(place, name, ablation))
            rows += [row for run in found.results for row in describe(run, place, name)]
            failures |= {
                f"{name}, {place.name}: {cell}": why for cell, why in found.failures.items()
            }
    if not rows:
        parser.error("there are no data; name the folder that has them with --data-dir")
    write(pd.DataFrame(rows), failures, asked.results)


def list_places(asked: argparse.Namespace) -> Iterator[Place]:
    """Those whose data are here; what is missing is said."""
    for name, read in ((FEATURES, list_features), (SCRATCH, list_scratch)):
        if asked.only not in (None, name):
            continue
        try:
            yield from read(asked)
        except DataError as error:
            print(f"without those on {name}: {error}", flush=True)


def list_features(asked: argparse.Namespace) -> Iterator[Place]:
    """CIFAR-10 as vectors: ten classes for labels that move, six for images from outside."""
    specs = ("nonuniform:0.4", "uniform:0.6", "ood-nonuniform:0.5", "ood:0.6")
    levels = dict(zip(KINDS, specs, strict=True))
    for case, kinds in zip(features.CASES[:2], (KINDS[:2], KINDS[2:]), strict=True):
        data = features.read(case, asked.data_dir, asked.cache)
        out = asked.out / FEATURES / case.name
        alike = features.learn_alike(data, out) if data.outside is not None else None
        grid = Grid(data, out, ("drpl",), confusion=alike, settings=OURS, jobs=asked.jobs)
        grid = replace(grid, seeds=SEEDS[FEATURES])
        yield Place(FEATURES, grid, {kind: levels[kind] for kind in kinds})


def list_scratch(asked: argparse.Namespace) -> Iterator[Place]:
    """The mini benchmark's Fashion-MNIST."""
    shared = mini.prepare_fashion(asked.out / SCRATCH, asked.data_dir)
    grid = Grid(mini.FASHION, methods=("drpl",), presets=("mini",), jobs=asked.jobs, **shared)
    grid = replace(grid, seeds=SEEDS[SCRATCH])
    noises = dict(zip(KINDS[:3], mini.NOISES, strict=False))
    yield Place(SCRATCH, grid, noises, few=("NU-OOD",))


def list_quick(asked: argparse.Namespace) -> Iterator[Place]:
    """The digits as vectors and as images, with trainings of two epochs and one seed."""
    stages = ("relabel", "warmup", "detect", "final")
    brief: dict[str, Any] = {
        f"{stage}_schedule": {"epochs": 2, "lr": [[1, 0.05]], "batch_size": 32} for stage in stages
    }
    brief |= {"relabel.begin": 1, "pool": True, "width": 4}
    specs = ("nonuniform:0.3", "uniform:0.4", "ood-nonuniform:0.3", "ood:0.4")
    noises = dict(zip(KINDS, specs, strict=True))
    case = features.Case("digits", "digits", (), ("8", "9"), (200, 100, 120))
    vectors = features.read(case, cache=asked.cache)
    alike = features.learn_alike(vectors, asked.out)
    for name, data in ((FEATURES, vectors), (SCRATCH, features.load_case(case))):
        out = asked.out / name
        grid = Grid(data, out, ("drpl",), confusion=alike, settings=brief, jobs=asked.jobs)
        yield Place(name, grid, noises, few=("NU-OOD", "U-OOD") if name == SCRATCH else ())


def list_ablations(
    place: Place, out: Path, chosen: Sequence[str] | None = None
) -> Iterator[tuple[str, Ablation]]:
    """All (or those chosen) that can be tried there; four flips where CIFAR-10's classes are."""
    for name in chosen or ABLATIONS:
        ablation = ABLATIONS[name]
        of_noise = bool(ablation.noises.keys() & place.noises.keys())
        of_method = not ablation.noises and (name == BASE or changes(place.grid, ablation))
        if of_noise or of_method:
            yield name, ablation
    data = place.grid.load_data()
    if data.train.classes == CIFAR10:
        path = out / "four-flips.csv"
        write_atomic(path, "\n".join(",".join(map(str, row)) for row in make_four_flips()) + "\n")
        yield FOUR_FLIPS, Ablation(noises={"NU-ID": f"matrix:{path}"})


def changes(grid: Grid, ablation: Ablation) -> bool:
    """Whether the settings are not those of the base already."""
    presets = grid.presets or ("vectors",)
    settings = {**grid.settings, **ablation.settings}
    return compose_for(BASE, presets, settings) != compose_for(BASE, presets, grid.settings)


def make_four_flips() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The transition matrix of the paper's own list: dogs stay dogs."""
    matrix = np.eye(len(CIFAR10))
    for name, other in MOVES.items():
        if name != "dog":
            a, b = CIFAR10.index(name), CIFAR10.index(other)
            matrix[a, a], matrix[a, b] = 1 - FLIPS, FLIPS
    return matrix


def plan(place: Place, name: str, ablation: Ablation) -> Grid:
    """The runs of one ablation."""
    usual = place.noises.items()
    noises = ablation.noises or {
        kind: spec for kind, spec in usual if name == BASE or kind not in place.few
    }
    return replace(
        place.grid,
        out=place.grid.out / slugify(name),
        noises=tuple(spec for kind, spec in noises.items() if kind in place.noises),
        settings={**place.grid.settings, **ablation.settings},
    )


def describe(run: Result, place: Place, name: str) -> Iterator[dict[str, Any]]:
    """A row of the table; of the base itself, also what its stages reach."""
    spec = run.summary["noise"]["spec"]
    own = ABLATIONS[name].noises if name in ABLATIONS else {"NU-ID": spec}
    kinds = {text: kind for noises in (place.noises, own) for kind, text in noises.items()}
    shared = {"where": place.name, "kind": kinds[spec], "seed": run.summary["seed"]}
    figures = {key: (run.detection or {}).get(key) for key in ("auroc", "tpr", "fpr")}
    accuracy = {f"accuracy_{key}": run.accuracy[key] for key in ("last", "best")}
    seconds = {"seconds": run.summary["seconds"]}
    yield {"change": name, **shared, **accuracy, **figures, **seconds}
    if name == BASE:
        splits = {stage["stage"]: stage["detection"] for stage in run.summary["stages"]}
        for title, (stage, split) in STAGES.items():
            tested = [row["accuracy"] for row in run.history if row["stage"] == stage]
            reached = {"accuracy_last": tested[-1], "accuracy_best": max(tested)}
            found = {key: splits[split][key] for key in ("auroc", "tpr", "fpr")}
            yield {"change": title, **shared, **reached, **found}


def summarize(table: pd.DataFrame) -> str:
    """A row a change; a column a kind of noise: last accuracy, and AUROC, means over seeds."""
    columns = [
        (where, kind)
        for where in (FEATURES, SCRATCH)
        for kind in KINDS
        if ((table["where"] == where) & (table["kind"] == kind)).any()
    ]
    names = ["change", *(f"{where}, {kind}" for where, kind in columns)]
    rows = [names, ["---", *["---:"] * len(columns)]]
    known = set(table["change"])
    order = [name for name in (BASE, *STAGES, *ABLATIONS, FOUR_FLIPS) if name in known]
    for name in dict.fromkeys(order):
        row = [name]
        for where, kind in columns:
            mine = table[(table["where"] == where) & (table["kind"] == kind)]
            mine = mine[mine["change"] == name]
            texts = [format_spread(list(mine[key]), digits) for key, digits in FIGURES.items()]
            row.append("; ".join(texts) if len(mine) else DASH)
        rows.append(row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


FIGURES = {"accuracy_last": 1, "auroc": 3}  # of a cell, and their digits


def write(table: pd.DataFrame, failures: Mapping[str, str], folder: Path) -> None:
    """All files of the results; rows of a place that this call left out stay as they are."""
    path = folder / "table.csv"
    if path.exists():
        before = pd.read_csv(path)
        table = pd.concat([before[~before["where"].isin(table["where"])], table])
    write_atomic(path, to_csv(table))
    text = summarize(pd.read_csv(path))
    write_atomic(folder / "summary.md", text)
    about = {
        "command": "make ablations",
        "seeds": {name: mine["seed"].unique().tolist() for name, mine in table.groupby("where")},
        "runs": int(table["seconds"].notna().sum()),
        "seconds of training": round(table["seconds"].sum()),
        "failures": dict(failures),
        "versions": list_versions(),
    }
    write_json(folder / "about.json", about)
    print(text)


if __name__ == "__main__":
    main()
