"""What a million samples take: seconds and memory at 10,000, 100,000 and 1,000,000 of them.

    python -m benchmarks.scale [--out FOLDER] [--sizes N ...] [--only NAME ...]

Each measure runs in a process of its own, so that its peak memory is its own; what it works on was
written by another one before. Seconds are those of the processor, which other work on the machine
changes little; `wall` are those of the clock. 10,000 samples often take milliseconds: these are
measured five times, and the middle one counts. What is finished is in the results and not done
again. Relabelling has 1,000 classes and remembers four epochs: 45 GB of the disk for a million.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

import drpl
from benchmarks import probabilities
from drpl.analysis.doctor import examine
from drpl.cleaning.claim import describe_data
from drpl.cleaning.folder import CleanedFolder, write_about, write_issues
from drpl.cleaning.review.decision_log import DecisionLog, make_decision
from drpl.cleaning.review.page import write_page
from drpl.cleaning.review.server import Auth, ReviewAPI
from drpl.cleaning.review.strata import draw_look
from drpl.data.dataset import DatasetSplits, in_memory
from drpl.data.file_states import FileStates
from drpl.data.sources import ReadOptions, load
from drpl.detection.neighbours import find_nearest, find_pairs
from drpl.encoders.encode import _Job
from drpl.encoders.store import FeatureStore, StoredVectors, make_all_keys
from drpl.files import read_json, write_json
from drpl.methods.cross_entropy import Config as Plain
from drpl.methods.joint import Config as Joint
from drpl.methods.joint import Relabel, Relabelling
from drpl.randomness import rng
from drpl.report.page import report
from drpl.runs.execute import list_versions
from drpl.runs.folder import read_samples, write_samples
from drpl.runs.run import Outcome, Run
from drpl.training import checkpoint, tables

RESULTS = Path("benchmarks/results/scale.json")
SIZES = (10_000, 100_000, 1_000_000)
CLASSES, MANY_CLASSES = 10, 1000
WINDOW = 4  # epochs of predictions that are kept: they are on the disk, where they take 2 GB each
NAMES = tuple(f"class {k}" for k in range(CLASSES))
LISTED = 10  # one sample of so many is an issue
DIM = 64  # of vectors
SIDE = 8  # pixels of image files
SHARE = 40_000, 100, 20  # samples, classes and epochs by which the share of saving is measured


class Stopwatch:
    """What a block took, by the processor and by the clock."""

    seconds = wall = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Around what is timed."""
        began, used = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - began
        self.seconds += time.process_time() - used


Measure = Callable[[Path, int, Stopwatch], dict[str, Any] | None]


def make_vectors(count: int, dim: int = DIM, classes: int = CLASSES) -> DatasetSplits:
    """Vectors around one of as many centres, some of them under the wrong label."""
    draws = rng("scale", count)
    true = torch.randint(classes, (count,), generator=draws)
    wrong = torch.rand(count, generator=draws) < 0.1
    labels = torch.where(wrong, torch.randint(classes, (count,), generator=draws), true)
    labels[:classes] = torch.arange(classes)
    vectors = torch.randn(classes, dim, generator=draws)[true]
    vectors += torch.randn(count, dim, generator=draws)
    train = in_memory(vectors, labels, tuple(f"class {k}" for k in range(classes)))
    return DatasetSplits("vectors", train, None, (0.0,) * dim, (1.0,) * dim)


def schedule(epochs: int, batch_size: int) -> Any:
    return {"epochs": epochs, "lr": ((1, 0.1),), "batch_size": batch_size}


def relabel(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """Two epochs of relabelling and one of retraining, observed and saved: all of a run."""
    config = Joint(
        relabel=Relabelling(begin=1, window=WINDOW),
        relabel_schedule=schedule(2, 1000),
        retrain_schedule=schedule(1, 1000),
        network="linear",
    )
    data = make_vectors(count, 4, MANY_CLASSES)
    with watch.measure():
        drpl.train(data, method="joint", config=config, out=folder / "run", quiet=True)
    return {"classes": MANY_CLASSES, "window": WINDOW}


def relabel_mapped(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """A whole run with as large a share of its tables in files as a million samples would have."""
    budget, part = (size * count // SIZES[-1] for size in (tables.BUDGET, tables.PART))
    with patch.multiple(tables, BUDGET=budget, PART=part, WHOLE=budget):
        return relabel(folder, count, watch) | {"budget": budget}


def relabel_stage(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """An epoch of its first stage alone, with its checkpoint."""
    relabelling = Relabelling(begin=1, window=WINDOW)

    def fit(run: Run, config: Joint) -> Outcome:
        stage = Relabel(run.network(), run.labels, run.classes, relabelling)
        with watch.measure():
            run.fit("relabel", stage, config.relabel_schedule)
        raise KeyboardInterrupt  # what comes after it takes twice as much of the disk

    once = schedule(1, 1000)
    config = Joint(
        relabel=relabelling, relabel_schedule=once, retrain_schedule=once, network="linear"
    )
    data = make_vectors(count, 4, MANY_CLASSES)
    with suppress(KeyboardInterrupt):
        drpl.train(data, method=fit, config=config, out=folder / "run", quiet=True)
    size = sum(file.stat().st_size for file in (folder / "run").rglob("*") if file.is_file())
    return {"classes": MANY_CLASSES, "window": WINDOW, "bytes of the checkpoint": size}


def train(folder: Path, count: int, watch: Stopwatch) -> None:
    """An epoch of a linear network with its run folder."""
    config = Plain(schedule=schedule(1, 1000), network="linear")
    data = make_vectors(count, 4)
    with watch.measure():
        drpl.train(data, method="cross_entropy", config=config, out=folder / "run", quiet=True)


def write_report(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """The page on that run."""
    with watch.measure():
        page = report([folder / "run"], folder / "page.html")
    return {"bytes": page.stat().st_size}


def make_table(count: int) -> dict[str, Any]:
    draws = np.random.default_rng(1)
    given, suggested = draws.integers(CLASSES, size=(2, count))
    p_noisy = draws.random(count)
    return {
        "given": given,
        "suggested": suggested,
        "confidence": draws.random(count, np.float32),
        "loss": draws.random(count, np.float32),
        "p_noisy": p_noisy,
        "flagged": p_noisy > 1 - 1 / LISTED,
    }


def make_paths(count: int) -> list[str]:
    return [f"{NAMES[k % CLASSES]}/image-{k:07}.jpg" for k in range(count)]


def write_table(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """samples.csv and samples.npz."""
    table, paths = make_table(count), make_paths(count)
    with watch.measure():
        write_samples(folder, table, NAMES, paths)
    return {"bytes": (folder / "samples.csv").stat().st_size}


def read_table(folder: Path, count: int, watch: Stopwatch) -> None:
    """samples.csv."""
    with watch.measure():
        found = read_samples(folder / "samples.csv")
    assert len(found) == count


def write_cleaned(folder: Path, count: int, watch: Stopwatch) -> None:
    """samples.csv, issues.csv and look.csv, as `drpl clean` leaves them."""
    table, paths = make_table(count), make_paths(count)
    with watch.measure():
        write_samples(folder, table, NAMES, paths)
        frame = read_samples(folder / "samples.csv").sort_values("p_noisy", ascending=False)
        more = {"verdict": "mislabelled", "outlier_score": 0.5, "near_given": "0 1"}
        issues = frame.assign(near_suggested="2 3", **more)
        write_about(folder, "photos", folder, NAMES)
        write_issues(folder, issues[: count // LISTED])
        look = draw_look(CleanedFolder.load(folder, look=False), 1)
        write_issues(folder, issues.set_index("id", drop=False).loc[look], "look.csv")
    rate = {"value": 0.1, "low": 0.05, "high": 0.15}
    write_json(folder / "clean.json", {"noise rate": rate})


def open_review(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """`drpl review` until it answers: the folder, the list and a forecast."""
    with watch.measure(), DecisionLog(CleanedFolder.load(folder)) as log:
        api = ReviewAPI(log, "Ann", Auth(0))
        answer = api.forecast(SimpleNamespace(query_params={}))  # type: ignore[arg-type]
    return {"bytes": len(api.issues), "forecast bytes": len(answer.body)}


def decide(folder: Path, count: int, watch: Stopwatch) -> None:
    """A hundred decisions, with a forecast after every tenth, in an open review."""
    with DecisionLog(CleanedFolder.load(folder)) as log:
        api = ReviewAPI(log, "Ann", Auth(0))
        asked: Any = SimpleNamespace(query_params={})
        with watch.measure():
            for k, number in enumerate(log.cleaned.look.index.tolist() * 3):
                log.add(make_decision(log.cleaned, number, ("keep", "accept")[k % 2], "", "Ann"))
                if k % 10 == 9:
                    api.forecast(asked)


def write_review_page(folder: Path, count: int, watch: Stopwatch) -> None:
    """The page that needs no server."""
    with watch.measure():
        write_page(CleanedFolder.load(folder), folder / "review.html", "Ann")


def find_neighbours(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """The ten nearest others of every vector."""
    unit = normalize(make_vectors(count).train.images.load(torch.arange(count))).half()
    with watch.measure():
        _, found = find_nearest(unit, 10)
    return {"dimensions": DIM, "recall": round(measure_recall(unit, found), 4)}


def measure_recall(unit: Tensor, found: Tensor, drawn: int = 400) -> float:
    """The share of the nearest others of some vectors, by comparison with all, that were found."""
    vectors, hits = unit.float(), []
    for row in torch.arange(0, len(unit), len(unit) // drawn).tolist():
        products = vectors @ vectors[row]
        products[row] = -torch.inf  # not itself
        hits.append(torch.isin(found[row], products.topk(found.shape[1]).indices))
    return float(torch.stack(hits).float().mean())


def find_copies(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """Pairs of vectors that are nearly the same, among which one of a hundred has a copy."""
    unit = normalize(make_vectors(count).train.images.load(torch.arange(count))).half()
    unit[: count // 100] = unit[-(count // 100) :]
    with watch.measure():
        pairs, _ = find_pairs(unit, 0.95, 5)
    return {"dimensions": DIM, "recall": round(len(pairs) / (count // 100), 4)}


def write_probabilities(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """A mapped file of 100 probabilities a sample."""
    with watch.measure():
        probabilities.write(folder, count)
    return {"classes": probabilities.CLASSES}


def judge_probabilities(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """`find_label_issues` on that file."""
    probs, labels, _ = probabilities.read(folder)
    with watch.measure():
        drpl.find_label_issues(pred_probs=probs, labels=labels, return_scores=True)
    return {"classes": probabilities.CLASSES}


def store_features(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """Add features to a store in parts, open it again, and read all of them."""
    vectors = torch.randn(1000, DIM)
    keys = [k.to_bytes(16, "big") for k in range(count)]
    with watch.measure():
        store = FeatureStore(folder / "store", "lite0", DIM)
        with store.locked():
            for start in range(0, count, len(vectors)):
                store.add(keys[start : start + len(vectors)], vectors)
        rows = FeatureStore(folder / "store", "lite0", DIM).find(keys)
        found = StoredVectors([(store.rows_path, rows)], DIM)
        for part in torch.arange(count).split(1000):
            found.load(part)
    return {"dimensions": DIM}


def write_files(folder: Path, count: int, watch: Stopwatch) -> None:
    """Small bitmaps in folders of classes, no two of them the same."""
    size = 3 * SIDE * SIDE
    head = b"BM" + (54 + size).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    head += (40).to_bytes(4, "little") + 2 * SIDE.to_bytes(4, "little")
    head += b"\1\0\x18\0" + bytes(4) + size.to_bytes(4, "little") + bytes(16)
    draws = np.random.default_rng(1)
    with watch.measure():
        for start in range(0, count, 10_000):  # in folders that are not too large
            for name in NAMES:
                (folder / "photos" / name / f"{start:07}").mkdir(parents=True)
            for k in range(start, min(count, start + 10_000)):
                file = folder / "photos" / NAMES[k % CLASSES] / f"{start:07}" / f"{k:07}.bmp"
                file.write_bytes(head + draws.bytes(size))


def digest_files(folder: Path, count: int, watch: Stopwatch) -> None:
    """What `drpl clean` compares a folder by, with the listing of its files."""
    with watch.measure():
        describe_data(str(folder / "photos"), "none", ReadOptions())


def digest_listed(folder: Path, count: int, watch: Stopwatch) -> None:
    """The digest alone, of files that were listed."""
    data = load(str(folder / "photos"), ReadOptions(lazy=True))
    with watch.measure():
        names = data.train.paths
        assert names is not None
        digest = FileStates(folder / "photos", names).digest
    assert digest


def examine_files(folder: Path, count: int, watch: Stopwatch) -> None:
    """`drpl doctor` on a folder of image files that it sees for the first time."""
    with watch.measure():
        cache = ReadOptions(cache=folder / "cache")
        data = load(str(folder / "photos"), cache)
        examine(data, folder / "photos")


def reuse_features(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """Features of files that were all encoded before, from the list of files to the vectors.

    The store is filled with random vectors here, for a million images would take hours.
    """
    options = ReadOptions(cache=folder / "cache", lazy=True)
    keys = make_all_keys(load(str(folder / "photos"), options).train.images)
    store, _ = _Job("lite0", folder / "cache" / "features", options, 0).stores[0]
    with store.locked():
        for start in range(0, count, 1000):
            store.add(keys[start : start + 1000], torch.randn(1000, store.dim))
    with watch.measure():
        found = drpl.encode(str(folder / "photos"), "lite0", read_options=options)
    assert len(found.train) == count
    return {"dimensions": store.dim}


def share_of_saving(folder: Path, count: int, watch: Stopwatch) -> dict[str, Any]:
    """How much of the time goes into checkpoints where little else is to be done."""
    samples, classes, epochs = SHARE
    config = Joint(
        relabel=Relabelling(begin=1),
        relabel_schedule=schedule(epochs, 128),
        retrain_schedule=schedule(epochs // 2, 128),
        network="mlp",
        width=64,
    )
    saving, write = Stopwatch(), checkpoint.write
    saves: list[str] = []

    def write_timed(path: Path, what: checkpoint.Checkpoint) -> None:
        saves.append(path.stem)
        with saving.measure():
            write(path, what)

    data = make_vectors(samples, 64, classes)
    with patch.object(checkpoint, "write", write_timed), watch.measure():
        drpl.train(data, method="joint", config=config, out=folder / "run", quiet=True)
    return {
        "samples": samples,
        "classes": classes,
        "saves": len(saves),
        "seconds of saving": round(saving.seconds, 2),
        "wall of saving": round(saving.wall, 2),
        "share": round(saving.wall / watch.wall, 4),
        "share of the processor's time": round(saving.seconds / watch.seconds, 4),
    }


# By group: measures that follow each other in one folder.
GROUPS: dict[str, dict[str, Measure]] = {
    "saving": {"share of saving": share_of_saving},
    "table": {"write samples.csv": write_table, "read samples.csv": read_table},
    "run": {"train": train, "report": write_report},
    "review": {
        "write cleaned folder": write_cleaned,
        "open review": open_review,
        "decide": decide,
        "review page": write_review_page,
    },
    "features": {"feature store": store_features},
    "probabilities": {
        "write probabilities": write_probabilities,
        "issues of probabilities": judge_probabilities,
    },
    "files": {
        "write files": write_files,
        "digest of files": digest_listed,
        "list and digest files": digest_files,
        "features of files": reuse_features,
        "doctor": examine_files,
    },
    "nearest": {"nearest neighbours": find_neighbours},
    "copies": {"near-duplicates": find_copies},
    "relabel": {"relabelling": relabel},
    "mapped": {"relabelling, all in files": relabel_mapped},
    "stage": {"relabelling, first stage": relabel_stage},
}
SETUP = {"write files", "write probabilities"}  # what measures work on, and none of drpl's doing
PART_OF = {  # the whole that a user waits for
    "feature store": "features of files",
    "digest of files": "list and digest files",
}
TIMES = 5  # that the fewest samples are measured
OWN_SIZES = {
    "saving": SHARE[:1],
    "files": (10_000, 50_000, 100_000, 1_000_000),
    "mapped": (100_000,),
}


def main() -> None:
    words = argparse.ArgumentParser(description="From 10,000 to 1,000,000 samples.")
    words.add_argument("--out", type=Path, default=Path("runs/scale"), help="for files of its own")
    words.add_argument("--sizes", nargs="+", type=int, help="only these")
    words.add_argument("--only", nargs="+", choices=GROUPS, default=[*GROUPS])
    words.add_argument("--one", nargs=2, metavar=("NAME", "SIZE"), help=argparse.SUPPRESS)
    asked = words.parse_args()
    if asked.one:
        print(json.dumps(run_one(asked.out, asked.one[0], int(asked.one[1]))))
        return
    found = read_json(RESULTS)["rows"] if RESULTS.exists() else []
    wanted = [(size, group) for group in asked.only for size in OWN_SIZES.get(group, SIZES)]
    for size, group in sorted(wanted, key=lambda pair: pair[0]):
        if asked.sizes and size not in asked.sizes:
            continue
        missing = [
            name
            for name in GROUPS[group]
            if not any((row["name"], row["samples"]) == (name, size) for row in found)
        ]
        if not missing:
            continue
        times = TIMES if size == SIZES[0] else 1
        tries = [run_group(asked.out / f"{group}-{size}", group, size) for _ in range(times)]
        for rows in zip(*tries, strict=True):
            row = sorted(rows, key=itemgetter("seconds"))[times // 2]
            print(row, flush=True)
            key = row["name"], size
            found = [r for r in found if (r["name"], r["samples"]) != key] + [row]
        write(found)


def run_group(folder: Path, group: str, size: int) -> list[dict[str, Any]]:
    """A row for each measure of a group, one after the other in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return [start_one(folder, name, size) for name in GROUPS[group]]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_one(folder: Path, name: str, size: int) -> dict[str, Any]:
    """A measure in a process of its own."""
    words = ["-m", "benchmarks.scale", "--out", str(folder), "--one", name, str(size)]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, env=alone
    )
    if done.returncode:
        sys.exit(f"{name} at {size:,}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def run_one(folder: Path, name: str, size: int) -> dict[str, Any]:
    """A row of the results."""
    measure = next(group[name] for group in GROUPS.values() if name in group)
    torch.set_num_threads(1)
    watch = Stopwatch()
    more = measure(folder, size, watch) or {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "name": name,
        "samples": size,
        "seconds": round(watch.seconds, 3),
        "wall": round(watch.wall, 3),
        "microseconds a sample": round(watch.seconds / size * 1e6, 2),
        "peak megabytes": round(peak / 1e6),
        "peak kilobytes a sample": round(peak / 1e3 / size, 2),
        **more,
    }


def write(rows: list[dict[str, Any]]) -> None:
    """All rows, and by how much the time of a sample grows with their number."""
    order = [name for group in GROUPS.values() for name in group]
    rows = sorted(rows, key=lambda row: (order.index(row["name"]), row["samples"]))
    growth: dict[str, dict[str, Any]] = {}
    for name in order:
        mine = [row for row in rows if row["name"] == name and name not in SETUP]
        if len(mine) > 1:
            first, last = mine[0], mine[-1]
            growth[name] = {
                "from": first["samples"],
                "to": last["samples"],
                "time a sample": _divide(last, first, "microseconds a sample"),
                "memory a sample": _divide(last, first, "peak kilobytes a sample"),
            }
            if name in PART_OF:
                growth[name]["part of"] = PART_OF[name]
    about = {"command": "python -m benchmarks.scale", "cores": os.cpu_count(), "threads": 1}
    versions = list_versions()
    for package in ("pandas", "faiss-cpu"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    write_json(RESULTS, {**about, "growth": growth, "rows": rows, "versions": versions})


def _divide(last: dict[str, Any], first: dict[str, Any], key: str) -> float:
    return round(float(last[key]) / max(float(first[key]), 1e-9), 2)


if __name__ == "__main__":
    main()
