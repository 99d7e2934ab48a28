"""A folder of images with wrong labels is cleaned; then three methods learn from worse ones.

python examples/demo.py --seeds 1 2 3
"""

import argparse
import json
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import drpl

WRONG = 0.15  # share of the labels in the folder
BUDGET = "30s"
METHODS = ("cross_entropy", "mixup", "drpl")
NOISE = "uniform:0.6"


def main() -> None:
    """Clean, compare, and say where all of it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--save", type=Path, help="write the comparison's figures to this JSON")
    wanted, console = parser.parse_args(), Console()

    photos = wanted.out / "digits"
    true = write_digits(photos)
    console.rule(f"drpl clean {photos}: {WRONG:.0%} of the labels are wrong, it is not told which")
    found = drpl.clean(str(photos), wanted.out / "cleaned", budget=BUDGET, features="none")
    console.print(found)
    issues = found.issues
    right = np.mean([true[path] != label for path, label in issues[["path", "given_label"]].values])
    console.print(f"\n{right:.0%} of the {len(issues)} listed labels are really wrong.")

    console.rule("drpl compare digits: three methods where 60 % of the labels are wrong")
    compared = drpl.compare(
        "digits",
        methods=METHODS[::-1],  # the longest first: the others are done beside it
        noises=[NOISE],
        seeds=wanted.seeds,
        out=wanted.out / "compared",
    )
    console.print(tabulate(compared.results, len(wanted.seeds)))
    if wanted.save:
        wanted.save.parent.mkdir(parents=True, exist_ok=True)
        every = [run.summary for run in compared.results]
        wanted.save.write_text(json.dumps(every, indent=2) + "\n")
    page = drpl.report(compared.results, wanted.out / "report.html")
    console.print(f"The cleaned folder's page: {found.folder / 'report.html'}\nThe runs': {page}")


def write_digits(folder: Path) -> dict[str, str]:
    """Scanned digits in a folder a class, some in the wrong one; the true class of each path."""
    digits, draws = load_digits(), np.random.default_rng(1)
    count = len(digits.target)
    given, wrong = digits.target.copy(), draws.permutation(count)[: round(WRONG * count)]
    given[wrong] = (given[wrong] + draws.integers(1, 10, len(wrong))) % 10
    true = {}
    for k, (pixels, label) in enumerate(zip(digits.images, given, strict=True)):
        path = f"{label}/{k:04}.png"
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 / 16 * pixels).astype(np.uint8)).save(folder / path)
        true[path] = str(digits.target[k])
    return true


def tabulate(results: list[drpl.Result], seeds: int) -> Table:
    """One row a method, means over the seeds."""
    table = Table(title=f"mean of {seeds} seed{'s' * (seeds > 1)}")
    for column in ("method", "accuracy last", "best", "AUROC", "TPR", "FPR", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in METHODS:
        runs = [run for run in results if run.summary["method"] == method]
        accuracy = [
            f"{mean(run.accuracy[key] or 0 for run in runs):.2f}" for key in ("last", "best")
        ]
        detection = [
            f"{mean((run.detection or {})[key] or 0 for run in runs):.4f}"
            for key in ("auroc", "tpr", "fpr")
        ]
        seconds = mean(run.summary["seconds"] for run in runs)
        table.add_row(method, *accuracy, *detection, f"{seconds:.0f}")
    return table


if __name__ == "__main__":
    main()
