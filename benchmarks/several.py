"""Wrong entries of images with several labels each: are those found that were planted?

    python -m benchmarks.several [--pictures /usr/share/openclipart/png]

Two pictures side by side, which have the labels of both: the digits of scikit-learn, and drawings
from eight folders of Debian's openclipart-png, where that is. Of all entries, an image and a label
that it has or has not, a share is flipped, labels that are there and labels that are not alike.
`drpl clean` gets the list; its probabilities are put beside what was flipped. Folders of drawings
have mistakes of their own, which count as right here.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from benchmarks.clipart import FOLDERS
from drpl.cleaning.tags import judge_tags
from drpl.data.decoding import load_thumbnail
from drpl.data.sources import ReadOptions, load
from drpl.files import write_atomic, write_json
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions

IMAGES = 2000
SIDE = 96  # pixels of one picture
SIZE = 128  # pixels a side that the encoder sees
CASES = ((0.1, 1), (0.1, 2), (0.1, 3), (0.03, 1), (0.0, 1))  # share of flips, seed
RESULTS = Path("benchmarks/results/several")

Tags = NDArray[np.bool_]
Draw = Callable[[int], Image.Image]  # the picture of that number


def main() -> None:
    words = argparse.ArgumentParser(description="Planted errors in several labels an image.")
    words.add_argument("--out", type=Path, default=Path("runs/several"), help="pictures and runs")
    words.add_argument("--pictures", type=Path, default=Path("/usr/share/openclipart/png"))
    asked = words.parse_args()
    began = time.monotonic()
    rows = list(measure(asked.out, asked.pictures))
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_atomic(RESULTS / "table.csv", to_csv(pd.DataFrame(rows)))
    about = {"command": "python -m benchmarks.several", "seconds": round(time.monotonic() - began)}
    write_json(RESULTS / "about.json", {**about, "versions": list_versions()})


def measure(out: Path, pictures: Path) -> Iterator[dict[str, Any]]:
    """A row for each case of each set."""
    sets = {"digits": read_digits}
    if pictures.is_dir():
        sets["clip-arts"] = lambda: read_drawings(pictures)
    for name, read in sets.items():
        draw, labels, classes = read()
        tags = write_pairs(out / name, draw, labels, len(classes))
        for rate, seed in CASES:
            given = tags ^ (np.random.RandomState(seed).rand(*tags.shape) < rate)
            source = out / name / f"{rate}-{seed}.csv"
            write_list(source, given, classes)
            row = {"set": name, "flipped": rate, "seed": seed, "entries": tags.size}
            row |= clean_list(source, out, given != tags, given)
            print(row, flush=True)
            yield row


def read_digits() -> tuple[Draw, NDArray[Any], list[str]]:
    digits = load_digits()

    def draw(number: int) -> Image.Image:
        return Image.fromarray((digits.images[number] * 15.9).astype(np.uint8)).convert("RGB")

    return draw, digits.target, [str(k) for k in range(10)]


def read_drawings(pictures: Path) -> tuple[Draw, NDArray[Any], list[str]]:
    files = [
        (path, k)
        for k, name in enumerate(FOLDERS)
        for path in sorted(pictures.glob(f"{name}/**/*.png"))
    ]
    readable = [(path, k) for path, k in files if path.stat().st_size < 200_000]

    def draw(number: int) -> Image.Image:
        square = Image.new("RGB", (SIDE, SIDE), "white")
        square.paste(load_thumbnail(readable[number][0], SIDE))
        return square

    return draw, np.array([k for _, k in readable]), FOLDERS


def write_pairs(place: Path, draw: Draw, labels: NDArray[Any], classes: int) -> Tags:
    """The pictures, and which labels each shows. [N, C]"""
    place.mkdir(parents=True, exist_ok=True)
    draws = np.random.RandomState(0)
    even = 1 / np.bincount(labels, minlength=classes)[labels]  # all classes alike
    both = draws.choice(len(labels), size=(IMAGES, 2), p=even / even.sum())
    tags = np.zeros((IMAGES, classes), bool)
    for k, pair in enumerate(both):
        tags[k, labels[pair]] = True
        if not (place / f"{k}.png").exists():
            whole = Image.new("RGB", (2 * SIDE, SIDE))
            for side, number in enumerate(pair):
                whole.paste(draw(int(number)).resize((SIDE, SIDE)), (side * SIDE, 0))
            whole.save(place / f"{k}.png")
    return tags


def write_list(path: Path, given: Tags, classes: list[str]) -> None:
    names = [";".join(classes[c] for c in np.flatnonzero(row)) for row in given]
    table = pd.DataFrame({"path": [f"{k}.png" for k in range(len(names))], "labels": names})
    table.to_csv(path, index=False)


def clean_list(source: Path, out: Path, wrong: Tags, given: Tags) -> dict[str, Any]:
    """What the command lists, and how well all probabilities order the entries."""
    folder, options = out / f"{source.parent.name}-{source.stem}", ["--size", str(SIZE)]
    command = [sys.executable, "-m", "drpl", "clean", str(source), "-o", str(folder), "--quiet"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    issues = pd.read_csv(folder / "label-issues.csv", dtype={"label": str})
    read = ReadOptions(size=SIZE, features="lite0", several=True)
    data = load(str(source), read)  # its vectors are in the store
    found = judge_tags(data).p_wrong.numpy()
    position = {name: c for c, name in enumerate(data.train.classes)}
    listed = np.zeros(wrong.shape, bool)
    listed[issues["id"], [position[name] for name in issues["label"]]] = True
    row: dict[str, Any] = {"listed": int(listed.sum()), "wrong": int(wrong.sum())}
    row["rightly"] = int((listed & wrong).sum())
    row["estimated"] = float(found.mean())
    if wrong.any():
        row["auroc"] = roc_auc_score(wrong.ravel(), found.ravel())
        row["auroc of labels that are there"] = roc_auc_score(wrong[given], found[given])
        row["auroc of labels that are not"] = roc_auc_score(wrong[~given], found[~given])
    return row


if __name__ == "__main__":
    main()
