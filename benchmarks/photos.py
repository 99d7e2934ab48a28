"""A folder of 20,000 photos that people labelled, through the one command that users type.

    python -m benchmarks.photos --data-dir FOLDER [--labels worse_label ...] [--seeds 1 2 3]

CIFAR-10N's first 20,000 training images and all test images are written as PNG files into folders
named by the labels, and `drpl clean FOLDER --budget 10m` is all that is said. `clean_label` are
CIFAR-10's own. What the command wrote is then held against the truth, before and after 40
decisions by somebody who knows it. What is finished is kept in the folder of `--out` and not done
again.
"""

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks import humans, review
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.forecast import Forecaster
from drpl.cleaning.review.strata import draw_look
from drpl.data.dataset import Dataset
from drpl.data.decoding import to_picture
from drpl.data.sources import ReadOptions
from drpl.detection.calibration import calibration_error
from drpl.files import read_arrays, read_json, write_arrays, write_atomic, write_json
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions

CLEAN = "clean_label"
LABELS = ("worse_label", "aggre_label", CLEAN)
BUDGET = "10m"
WRONG = "wrong.npz"  # which labels are wrong, beside the photos
REPEATS = 20  # looks at 40, of which the mean is told
RESULTS = Path("benchmarks/results/photos")


def main() -> None:
    words = argparse.ArgumentParser(description="drpl clean on folders of photos.")
    words.add_argument("--out", type=Path, default=Path("runs/photos"), help="the runs")
    words.add_argument("--data-dir", type=Path, required=True, help="where the data sets are")
    words.add_argument("--labels", nargs="+", default=LABELS)
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    asked = words.parse_args()
    for seed in asked.seeds:
        for labels in asked.labels:
            photos = asked.out / labels / "photos"
            if not photos.exists():
                write_photos(photos, labels, asked.data_dir)
            clean(photos, asked.out / labels / f"seed-{seed}", seed)
    write(asked.out)


def write(out: Path) -> None:
    """All rows and how they came about, into the results."""
    rows = [
        {"labels": path.parent.parent.name, "seed": int(path.parent.name[5:])}
        | measure(path.parent)
        for path in sorted(out.glob("*/seed-*/seconds.json"))
    ]
    write_atomic(RESULTS / "table.csv", to_csv(pd.DataFrame(rows)))
    about = {"command": "python -m benchmarks.photos", "budget": BUDGET, "looks": REPEATS}
    write_json(RESULTS / "about.json", {**about, "versions": list_versions()})
    print(pd.DataFrame(rows).T.to_string())


def write_photos(folder: Path, labels: str, data_dir: Path) -> None:
    """The images as files in a folder for each class, and which labels are wrong beside it."""
    own = labels == CLEAN
    data = humans.read(LABELS[0] if own else labels, ReadOptions(data_dir=data_dir), humans.IMAGES)
    if own:
        data = replace(data, train=replace(data.train, labels=data.train.true_labels))
    assert data.test
    assert data.train.truth
    part = folder.with_name("part")
    write_part(part / "train", data.train)
    write_part(part / "test", data.test)
    wrong = data.train.truth.is_noisy(data.train.labels).numpy()
    write_arrays(folder.with_name(WRONG), {"wrong": wrong})
    part.rename(folder)


def write_part(folder: Path, part: Dataset) -> None:
    """Files named by the place of an image, so that the truth is found again."""
    for name in part.classes:
        (folder / name).mkdir(parents=True)
    for k, label in enumerate(part.labels.tolist()):
        pixels = part.images.load(torch.tensor([k]))[0]
        picture = Image.fromarray(to_picture(pixels))
        picture.save(folder / part.classes[label] / f"{k:05d}.png", compress_level=1)


def clean(photos: Path, out: Path, seed: int) -> None:
    """`drpl clean` as a user types it, timed."""
    if (out / "seconds.json").exists():
        return
    command = [sys.executable, "-m", "drpl", "clean", str(photos), "--budget", BUDGET, "--quiet"]
    began = time.monotonic()
    subprocess.run([*command, "--out", str(out), "--seed", str(seed)], check=True)
    write_json(out / "seconds.json", {"seconds": round(time.monotonic() - began)})
    print(out, measure(out), flush=True)


def read_wrong(out: Path) -> NDArray[np.bool_]:
    """Which of the labels that `drpl clean` saw are wrong, in its own order."""
    wrong = read_arrays(out.parent / WRONG)["wrong"]
    paths = CleanedFolder.load(out).samples["path"]
    return np.array([wrong[int(Path(path).stem)] for path in paths], bool)


def measure(out: Path) -> dict[str, Any]:
    """What one call found, held against the truth."""
    cleaned, wrong = CleanedFolder.load(out), read_wrong(out)
    samples, figures = cleaned.samples, read_json(out / "clean.json")
    p_noisy, listed = samples["p_noisy"].to_numpy(float), samples.index.isin(cleaned.issues.index)
    top = np.argsort(-p_noisy, kind="stable")[: wrong.sum()]
    known = bool(wrong.any())
    return {
        "seconds": read_json(out / "seconds.json")["seconds"],
        "repeats": figures["repeats"],
        "wrong": float(wrong.mean()),
        **{f"rate {name}": value for name, value in figures["noise rate"].items()},
        "auroc": float(roc_auc_score(wrong, p_noisy)) if known else None,
        "average precision": float(average_precision_score(wrong, p_noisy)) if known else None,
        "precision at the true number": float(wrong[top].mean()) if known else None,
        "test accuracy": read_json(out / "result.json")["accuracy"]["last"],
        "listed": int(listed.sum()),
        "precision": float(wrong[listed].mean()) if listed.any() else None,
        "recall": float(wrong[listed].sum() / wrong.sum()) if known else None,
        "planted recall": figures.get("planted", {}).get("recall"),
        "ece": calibration_error(p_noisy, wrong),
        "ece after 40": float(np.mean([look(cleaned, wrong, k) for k in range(REPEATS)])),
    }


def look(cleaned: CleanedFolder, wrong: NDArray[np.bool_], seed: int) -> float:
    """The calibration error after 40 decisions of somebody who knows the truth."""
    ids = draw_look(cleaned, seed)
    seen = review.decide(cleaned, ids, wrong, 0.0, seed)
    chosen = pd.DataFrame(index=pd.Index(ids, name="id"))
    found = Forecaster(replace(cleaned, look=chosen)).learn(seen)
    return calibration_error(found.p_noisy, wrong)


if __name__ == "__main__":
    main()
