"""Linear probes by depth, as in the paper's study of what noise does to features.

    python benchmarks/probes.py --data FOLDER [--out FOLDER]        about 45 minutes of one core

FOLDER has files in the format of ImageNet32 and a `classes.json` that says which classes are to be
told apart and which are outside. Networks learn the former, with clean and with wrong labels; the
probes tell ten of the latter apart, which no network was shown. A run that was stopped goes on
where it was, and one that is finished is kept.
"""

import argparse
import time
from pathlib import Path

import torch

from drpl.analysis.probe import FOLDS, STRENGTH, format_probes, probe
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from drpl.experiments.grid import Cell
from drpl.files import write_atomic, write_json
from drpl.report.table import to_csv
from drpl.runs.display import duration
from drpl.runs.dry_run import Speeds, dry_run
from drpl.runs.execute import execute, list_versions
from drpl.runs.experiment import Execution, Experiment

SEED = 1
CELLS = (
    Cell(None, "mixup", SEED),
    Cell("uniform:0.4", "mixup", SEED),
    Cell("uniform:0.4", "drpl", SEED),
    Cell("uniform:0.8", "mixup", SEED),
    Cell("uniform:0.8", "drpl", SEED),
)
PRESET, SETTINGS = "mini", {"width": 16}
SIZE, LIMIT = 16, 2000  # pixels a side; training images of all classes together
TARGET = 10  # outside classes


def main() -> None:
    words = argparse.ArgumentParser(description="Linear probes by depth.")
    words.add_argument("--data", required=True, help="the folder of the files")
    words.add_argument("--out", type=Path, default=Path("runs/probes"), help="the runs")
    words.add_argument("--results", type=Path, default=Path("benchmarks/results/probes"))
    words.add_argument("--limit", type=int, default=LIMIT, help="training images")
    asked = words.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    source = load(asked.data, ReadOptions(size=SIZE, limit=asked.limit))
    whole = load(asked.data, ReadOptions(size=SIZE))
    if whole.outside is None:
        raise DataError(f"{asked.data} has no outside classes to probe with")
    others = whole.outside.classes
    target = others[:: max(1, len(others) // TARGET)][:TARGET]  # neighbours are often alike
    print(forecast(source, asked.out))
    results = []
    for cell in CELLS:
        execution = Execution(folder=asked.out / cell.folder, quiet=True)
        results.append(execute(build(source, cell), execution))
        print(f"{cell}: accuracy {results[-1].accuracy['last']:.2f} %", flush=True)
    probing = time.monotonic()
    folders = [result.folder for result in results]
    found = probe(folders, whole, classes=target, seed=SEED, out=asked.results)
    # Where the runs are is of no concern to others.
    places = {str(folder): str(cell.folder) for folder, cell in zip(folders, CELLS, strict=True)}
    table = found.table.replace({"run": places})
    write_atomic(asked.results / "probes.csv", to_csv(table))
    write_json(
        asked.results / "about.json",
        {
            "command": "python benchmarks/probes.py",
            "source": source.name,
            "source classes": list(source.train.classes),
            "source images": len(source.train),
            "target classes": list(target),
            "target images": sum(
                int((whole.outside.labels == others.index(name)).sum()) for name in target
            ),
            "size": SIZE,
            "preset": PRESET,
            "settings": SETTINGS,
            "seed": SEED,
            "probe": {"C": STRENGTH, "folds": FOLDS},
            "accuracy on the source": {
                str(cell): result.accuracy["last"]
                for cell, result in zip(CELLS, results, strict=True)
            },
            "seconds of training": round(sum(result.summary["seconds"] for result in results)),
            "seconds of probing": round(time.monotonic() - probing),
            "seconds of this call": round(time.monotonic() - began),
            "notes": list(found.notes),
            "versions": list_versions(),
        },
    )
    print(format_probes(table))
    print(f"wrote {asked.results / 'probes.csv'}")


def build(source: DatasetSplits, cell: Cell) -> Experiment:
    """What a cell trains."""
    return Experiment.build(
        source,
        method=cell.method,
        noise=cell.noise,
        preset=PRESET,
        settings=SETTINGS,
        seed=SEED,
    )


def forecast(source: DatasetSplits, out: Path) -> str:
    """How long the runs may take that are not finished."""
    speeds: Speeds = {}
    seconds = [
        dry_run(build(source, cell), speeds=speeds).seconds
        for cell in CELLS
        if not (out / cell.folder / "result.json").exists()
    ]
    return f"{len(CELLS) - len(seconds)} runs are finished; about {duration(sum(seconds))} are left"


if __name__ == "__main__":
    main()
