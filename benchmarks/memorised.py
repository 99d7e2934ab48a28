"""What networks memorise, from scratch: losses over epochs, features by depth, class maps.

    python -m benchmarks.memorised [--data-dir FOLDER]      half an hour of one core
    python -m benchmarks.memorised --finished               tables of the runs that there are

600 images of the mini benchmark's Fashion-MNIST (six classes, four set aside) under its four
noises: enough to see what is fitted when, and little enough for several seeds. Probes separate
the four other classes on test images, none of which any network was shown. Maps want more pixels
than 14, so DRPL is trained once more on images of 28. What was stopped goes on where it was.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch.nn.functional import interpolate

from benchmarks import mini
from drpl.analysis.cam import look
from drpl.analysis.probe import probe
from drpl.cleaning.plan import list_schedules
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.experiments.grid import Cell, Grid
from drpl.experiments.study import TRACK
from drpl.files import load_arrays, write_atomic, write_json
from drpl.report.load import infer_epochs, read_wrong
from drpl.report.table import describe_cell, to_csv
from drpl.runs.execute import execute, list_versions
from drpl.runs.experiment import Execution, compose_for
from drpl.runs.folder import Result

RESULTS = Path("benchmarks/results/memorised")
IMAGES, SIDE, MAP_SIDE = 600, 14, 28  # training images; pixels a side, and for maps
TARGET = 2000  # images that probes learn from and are tested on, in four parts
SEEDS = (1, 2)
SHORTER = {"small": 2, "large": 4}  # by how much the schedules of mixup and DRPL are cut
NOISY_MAPS = mini.NOISES[:1]  # non-uniform, within the classes: as in the paper
HALF = 0.5  # of the noisy labels; of a map's range, from where it counts as covering the image


def main() -> None:
    words = argparse.ArgumentParser(description="What networks memorise.")
    words.add_argument("--out", type=Path, default=Path("runs/memorised"), help="the runs")
    words.add_argument("--results", type=Path, default=RESULTS)
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--finished", action="store_true", help="train nothing, write the tables")
    asked = words.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    shared = mini.prepare_fashion(asked.out, asked.data_dir, size=SIDE, limit=IMAGES)
    options = shared["read_options"]
    small = replace(load(mini.FASHION, options), test=None)  # nobody asks how accurate they are
    large = replace(load(mini.FASHION, replace(options, size=MAP_SIDE)), test=None)
    target = read_target(replace(options, outside=(), limit=None))
    grids = {
        name: Grid(data, asked.out / name, (), confusion=shared["confusion"])
        for name, data in (("small", small), ("large", large))
    }
    runs: dict[str, list[Result]] = {name: [] for name in grids}
    for name, cell in list_runs():
        if run := finish(grids[name], cell, asked.finished):
            runs[name].append(run)
    losses = [row for run in runs["small"] for row in follow(run)]
    write_table(asked.results / "losses.csv", losses)
    write_table(asked.results / "fitted.csv", find_halfway(pd.DataFrame(losses)))
    folders = [run.folder for run in runs["small"] if run.summary["method"] != "cross_entropy"]
    write_probes(asked.results, folders, target)
    maps = [row for run in runs["large"] for row in measure_maps(run, large)]
    write_table(asked.results / "maps.csv", maps)
    write_about(asked.results, [*runs["small"], *runs["large"]], target, began)


def list_runs() -> Iterator[tuple[str, Cell]]:
    """The size of the images and the cell; seed by seed, so that what is stopped has all noises."""
    for seed in SEEDS:
        yield from (("small", Cell(noise, "cross_entropy", seed)) for noise in mini.NOISES)
        yield from (("small", Cell(noise, "mixup", seed)) for noise in (None, *mini.NOISES))
        yield from (("large", Cell(noise, "drpl", seed)) for noise in NOISY_MAPS)
        yield from (("small", Cell(noise, "drpl", seed)) for noise in mini.NOISES)


def shorten(method: str, by: int) -> dict[str, Any]:
    """The preset's schedules with a part of their epochs, which still show what is memorised."""
    config = compose_for(method, ["mini"], {})
    settings: dict[str, Any] = {
        name: {
            "epochs": -(-schedule.epochs // by),
            "lr": [[1 + (epoch - 1) // by, rate] for epoch, rate in schedule.lr],
        }
        for name, schedule in list_schedules(config).items()
    }
    if relabel := getattr(config, "relabel", None):
        settings["relabel"] = {"begin": relabel.begin // by}
    return settings


def finish(grid: Grid, cell: Cell, finished: bool) -> Result | None:
    """The run of a cell, trained unless it is there; None: it is not, and nothing is trained."""
    folder = grid.out / cell.folder
    if finished:
        return Result.load(folder) if (folder / "result.json").exists() else None
    plain = cell.method == "cross_entropy"  # its losses are followed epoch by epoch
    settings = {} if plain else shorten(cell.method, SHORTER[grid.out.name])
    grid = replace(grid, presets=("mini",), settings=settings)
    execution = Execution(folder=folder, quiet=True, track_every=1 if plain else TRACK)
    result = execute(grid.build_experiment(cell), execution)
    print(f"{cell}: {result.summary['seconds']:.0f} s", flush=True)
    return result


def follow(run: Result) -> Iterator[dict[str, Any]]:
    """A row for each stage and epoch at which all losses were observed.

    A label is fitted where the network predicts it. `auroc` says how well the loss tells wrong
    labels from right ones; it is missing where none is wrong.
    """
    wrong = read_wrong(run)
    if wrong is None or not wrong.any():
        return
    for stage in dict.fromkeys(row["stage"] for row in run.history):
        path = run.folder / "evidence" / f"{stage}.npz"
        if not path.exists():
            continue
        seen = load_arrays(path, "losses", "margins")
        history = {row["epoch"]: row for row in run.history if row["stage"] == stage}
        for place, epoch in enumerate(infer_epochs(run, stage, len(seen["losses"]))):
            fitted = seen["margins"][place] > 0
            yield {
                **describe_cell(run),
                "stage": stage,
                "epoch": int(epoch),
                "auroc": roc_auc_score(wrong, seen["losses"][place]),
                "clean fitted": fitted[~wrong].mean(),
                "noisy fitted": fitted[wrong].mean(),
                "accuracy by targets": history[epoch].get("target_accuracy"),
                "accuracy by labels": history[epoch].get("train_accuracy"),
            }


def find_halfway(losses: pd.DataFrame) -> list[Any]:
    """Of each run of cross-entropy the first epoch by which half of the noisy labels are fitted.

    It is the last one where that never happens.
    """
    plain = losses[losses["method"] == "cross_entropy"]
    rows = []
    for _, run in plain.groupby(["noise", "seed"], sort=False):
        reached = run[run["noisy fitted"] >= HALF]
        rows.append((reached.iloc[0] if len(reached) else run.iloc[-1]).to_dict())
    return rows


def read_target(read_options: ReadOptions) -> DatasetSplits:
    """Test images of the classes set aside: intruders are training images, so nobody saw these."""
    data = load(mini.FASHION, read_options)
    assert data.test is not None
    return replace(data, train=data.test.select_classes(mini.OUTSIDE), test=None)


def write_probes(results: Path, folders: Sequence[Path], target: DatasetSplits) -> None:
    """Linear probes of every run; where the runs are is of no concern to others."""
    found = probe(folders, target, limit=TARGET).table.drop(columns="run")
    write_table(results / "probes.csv", found.to_dict("records"))


def measure_maps(run: Result, data: DatasetSplits) -> Iterator[dict[str, Any]]:
    """A row for each wrong label that was kept: how much of the image the two maps cover."""
    samples = load_arrays(run.folder / "samples.npz")
    kept = samples["wrong"] & ~samples["flagged"] & samples["in_distribution"]
    for view in look(run.folder, kept.nonzero()[0].tolist(), data):
        given, true = measure_area(view.given_map), measure_area(view.other_map)
        yield {
            **describe_cell(run),
            "id": view.id,
            "predicted": samples["suggested"][view.id] == samples["given"][view.id],
            "area of given": given,
            "area of true": true,
            "wider": float(given > true),
        }


def measure_area(values: NDArray[Any]) -> float:
    """The share of the image where a map lies in the upper half of its range, interpolated."""
    maps = torch.as_tensor(values, dtype=torch.float32)[None, None]
    shown = interpolate(maps, (MAP_SIDE, MAP_SIDE), mode="bilinear", align_corners=False)
    low, high = shown.aminmax()
    return float((shown >= low + HALF * (high - low)).float().mean())


def write_table(path: Path, rows: Sequence[Any]) -> None:
    """A table with four digits."""
    write_atomic(path, to_csv(pd.DataFrame(rows).round(4)))


def write_about(results: Path, runs: Sequence[Result], target: DatasetSplits, began: float) -> None:
    """How the tables came about."""
    about = {
        "command": "python -m benchmarks.memorised",
        "images": IMAGES,
        "pixels": {"losses and probes": SIDE, "maps": MAP_SIDE},
        "preset": "mini",
        "epochs of mixup and drpl": {name: f"1/{by} of it" for name, by in SHORTER.items()},
        "runs": len(runs),
        "target classes": list(target.train.classes),
        "seconds of training": round(sum(run.summary["seconds"] for run in runs)),
        "seconds of the processor, this call": round(time.process_time() - began),
        "versions": list_versions(),
    }
    write_json(results / "about.json", about)
    print(f"wrote {results}")


if __name__ == "__main__":
    main()
