"""Mistakes that nobody planted: `drpl clean` on eight folders of Debian's openclipart-png.

    python -m benchmarks.clipart [--pictures /usr/share/openclipart/png]

Drawings in the public domain, in folders that people filled by hand; single files have 168 million
pixels. The first thirty of the list are drawn with the folder that they lie in and the one that is
suggested, for a person to judge: nobody knows the truth.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image

from drpl.files import read_json, write_json
from drpl.runs.execute import list_versions

FOLDERS = [
    "animals",
    "buildings",
    "food",
    "people",
    "plants",
    "recreation",
    "tools",
    "transportation",
]
BUDGET = "10m"  # the default
ROWS, COLUMNS, SIDE = 5, 6, 160
LONGEST = 26  # signs of a file's name
RESULTS = Path("benchmarks/results/clipart")


def main() -> None:
    words = argparse.ArgumentParser(description="drpl clean on clip-arts.")
    words.add_argument("--out", type=Path, default=Path("runs/clipart"), help="the run")
    words.add_argument("--pictures", type=Path, default=Path("/usr/share/openclipart/png"))
    asked = words.parse_args()
    photos, out = asked.out / "pictures", asked.out / "cleaned"
    photos.mkdir(parents=True, exist_ok=True)
    for name in FOLDERS:
        if not (photos / name).exists():
            (photos / name).symlink_to(asked.pictures.resolve() / name)
    began = time.monotonic()
    command = [sys.executable, "-m", "drpl", "clean", str(photos), "--budget", BUDGET]
    subprocess.run([*command, "--out", str(out)], check=True)
    seconds = round(time.monotonic() - began)
    RESULTS.mkdir(parents=True, exist_ok=True)
    draw(photos, pd.read_csv(out / "issues.csv")[: ROWS * COLUMNS])
    about = {"command": "python -m benchmarks.clipart", "budget": BUDGET, "seconds": seconds}
    figures = read_json(out / "clean.json")
    kept = {name: figures[name] for name in ("samples", "issues", "noise rate", "seed")}
    write_json(RESULTS / "clipart.json", {**about, **kept, "versions": list_versions()})


def draw(photos: Path, issues: pd.DataFrame) -> None:
    """The pictures of some issues with the label that they have and the one that is suggested."""
    figure, places = plt.subplots(ROWS, COLUMNS, figsize=(2.1 * COLUMNS, 2.4 * ROWS), dpi=80)
    for place, issue in zip(places.flat, issues.itertuples(), strict=False):
        with Image.open(photos / str(issue.path)) as file:
            picture = file.convert("RGBA")
        picture.thumbnail((SIDE, SIDE))
        sheet = Image.new("RGBA", (SIDE, SIDE), "white")
        sheet.alpha_composite(picture, tuple((SIDE - side) // 2 for side in picture.size))
        place.imshow(sheet)
        place.set_title(f"{issue.given_label} → {issue.suggested_label}", fontsize=9)
        place.set_xlabel(Path(str(issue.path)).name[:LONGEST], fontsize=7, color="grey")
    for place in places.flat:
        place.set(xticks=[], yticks=[], frame_on=False)
    figure.tight_layout()
    figure.savefig(RESULTS / "clipart.png")


if __name__ == "__main__":
    main()
