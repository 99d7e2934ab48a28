"""Labels judged by a large file of probabilities: python -m benchmarks.probabilities

A million rows of 100 classes in a mapped file, and a tenth of them, each in a process of its own,
which says how many seconds and how much memory `drpl.find_label_issues` took. 10 % of the labels
are wrong. cleanlab's own scores of the same file, and the time of its search in parts, beside it.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import drpl
from drpl.files import write_json
from drpl.runs.execute import list_versions
from drpl.runs.issues import RankBy

RESULTS = Path("benchmarks/results/probabilities.json")
SAMPLES, CLASSES, NOISE = (100_000, 1_000_000), 100, 0.1
SCORES: tuple[RankBy, ...] = ("self_confidence", "normalized_margin")
PART = 10_000


def main() -> None:
    words = argparse.ArgumentParser(description="A million rows of probabilities.")
    words.add_argument("--measure", choices=["drpl", "cleanlab", "compare"], help="in one process")
    words.add_argument("--folder", type=Path, help="of the file")
    asked = words.parse_args()
    if asked.measure:
        measure = {"drpl": measure_drpl, "cleanlab": measure_cleanlab, "compare": compare}
        print(json.dumps(measure[asked.measure](asked.folder)))
        return
    rows = [measure_size(samples) for samples in SAMPLES]
    found = {
        "command": "python -m benchmarks.probabilities",
        "classes": CLASSES,
        "noise": NOISE,
        "sizes": rows,
        "versions": list_versions() | {"cleanlab": version("cleanlab")},
    }
    write_json(RESULTS, found)
    print(json.dumps(found, indent=2))


def measure_size(samples: int) -> dict[str, Any]:
    """Each measurement in a process of its own, on one thread."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, samples)
        found: dict[str, Any] = {"samples": samples}
        found["megabytes"] = round((folder / "probs.npy").stat().st_size / 2**20)
        for what in ("drpl", "cleanlab", "compare"):
            call = [sys.executable, "-m", "benchmarks.probabilities", "--measure", what]
            done = subprocess.run(
                [*call, "--folder", name], capture_output=True, text=True, check=True
            )
            found[what] = json.loads(done.stdout.splitlines()[-1])
        return found


def write(folder: Path, samples: int) -> None:
    """Probabilities in which the true class leads by 4 on average, labels, and which are wrong."""
    draws = np.random.default_rng(1)
    true = draws.integers(0, CLASSES, samples)
    about = {"descr": "<f4", "fortran_order": False, "shape": (samples, CLASSES)}
    with (folder / "probs.npy").open("wb") as file:  # not mapped: a child inherits the peak
        np.lib.format.write_array_header_1_0(file, about)
        for start in range(0, samples, PART):
            logits = draws.normal(size=(PART, CLASSES))
            logits[np.arange(PART), true[start : start + PART]] += 4
            odds = np.exp(logits)
            file.write((odds / odds.sum(1, keepdims=True)).astype("<f4").tobytes())
    wrong = draws.random(samples) < NOISE
    np.save(folder / "labels.npy", (true + wrong * draws.integers(1, CLASSES, samples)) % CLASSES)
    np.save(folder / "wrong.npy", wrong)


def read(folder: Path) -> tuple[Any, Any, Any]:
    torch.set_num_threads(1)
    probs = np.load(folder / "probs.npy", mmap_mode="r")
    return probs, np.load(folder / "labels.npy"), np.load(folder / "wrong.npy")


def measure_drpl(folder: Path) -> dict[str, Any]:
    probs, labels, wrong = read(folder)
    drpl.find_label_issues(pred_probs=np.eye(2), labels=[0, 1])  # imports are not measured
    before = {"megabytes_before": measure_peak()}
    began, worked = time.monotonic(), time.process_time()
    table = drpl.find_label_issues(pred_probs=probs, labels=labels, return_scores=True)
    took = measure_costs(began, worked)
    table = table.sort_index()
    found = float(roc_auc_score(wrong, table.label_noise))
    flagged = table.flagged.to_numpy()
    good = {"precision": wrong[flagged].mean(), "recall": flagged[wrong].mean()}
    return (
        before
        | took
        | {"auroc": round(found, 4)}
        | {k: round(float(v), 4) for k, v in good.items()}
    )


def measure_cleanlab(folder: Path) -> dict[str, Any]:
    """Its search in parts; it is told to use one process, as drpl does."""
    from cleanlab.experimental.label_issues_batched import find_label_issues_batched

    _, _, wrong = read(folder)
    began, worked = time.monotonic(), time.process_time()
    found = find_label_issues_batched(
        labels_file=str(folder / "labels.npy"),
        pred_probs_file=str(folder / "probs.npy"),
        batch_size=PART,
        n_jobs=1,
        verbose=False,
    )
    took = measure_costs(began, worked)
    good = {"precision": wrong[found].mean(), "recall": wrong[found].sum() / wrong.sum()}
    return took | {k: round(float(v), 4) for k, v in good.items()}


def measure_costs(began: float, worked: float) -> dict[str, float]:
    return {
        "seconds": round(time.monotonic() - began, 1),
        "seconds_of_the_processor": round(time.process_time() - worked, 1),
        "peak_megabytes": measure_peak(),
    }


def measure_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def compare(folder: Path) -> dict[str, bool]:
    """Whether the order by a score is cleanlab's, index by index."""
    from cleanlab.rank import get_label_quality_scores

    probs, labels, _ = read(folder)
    same: dict[str, bool] = {}
    for score in SCORES:
        ours = drpl.find_label_issues(
            pred_probs=probs, labels=labels, rank_by=score, return_scores=True
        )
        theirs = get_label_quality_scores(labels, np.asarray(probs), method=score)
        same[score] = bool((ours.index == np.argsort(theirs, kind="stable")).all())
    return same


if __name__ == "__main__":
    main()
