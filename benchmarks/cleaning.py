"""How good `drpl clean` is: python -m benchmarks.cleaning        about five minutes of two cores

The folder of the tutorial (1,443 scanned digits in files of several kinds, 30 % in a wrong folder,
10 % of no class) with the default budget, and twenty sets of vectors with 5 to 60 % wrong labels,
classes of equal and of unequal size.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from tests.cleaning.test_clean import blobs, figures_of
from tests.support.messy import messy_digits

from drpl import clean
from drpl.data.sources import ReadOptions
from drpl.files import write_json
from drpl.runs.execute import list_versions

RESULTS = Path("benchmarks/results/cleaning.json")
CASES, SEED = 20, 1


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        found: dict[str, Any] = {
            "command": "python -m benchmarks.cleaning",
            "seed": SEED,
            "folder": folder(Path(place)),
            "vectors": [vectors(Path(place), case) for case in range(CASES)],
            "versions": list_versions(),
        }
    found["intervals that contain the truth"] = sum(case["covered"] for case in found["vectors"])
    write_json(RESULTS, found)
    print(found["folder"], found["intervals that contain the truth"])


def folder(place: Path) -> dict[str, Any]:
    """The messy folder."""
    messy, began = messy_digits(place / "photos", 0.3, 0.1), time.monotonic()
    found = clean(
        str(messy.folder), place / "cleaned", read_options=ReadOptions(skip_broken=True), seed=SEED
    )
    wrong = [messy.wrong(path) for path in messy.truth]
    return {
        "samples": len(wrong),
        "wrong": sum(wrong),
        "issues": found.figures["issues"],
        "verdicts": found.figures["verdicts"],
        "noise rate": found.figures["noise rate"],
        **figures_of(place / "cleaned", messy),
        "seconds": round(time.monotonic() - began),
    }


def vectors(place: Path, case: int) -> dict[str, Any]:
    """One set of vectors: its true noise rate, the interval, and how good the list is."""
    data, true, given = blobs(case)
    found = clean(data, place / f"vectors-{case}", budget="1h", seed=SEED, quiet=True)
    wrong, ids = true != given, found.issues["id"].to_numpy()
    rate = found.rate
    return {
        "classes": len(data.train.classes),
        "balanced": case % 2 == 0,
        "wrong": float(wrong.mean()),
        "low": rate.low,
        "high": rate.high,
        "covered": bool(rate.low <= wrong.mean() <= rate.high),
        "precision": float(wrong[ids].mean()),
        "recall": float(wrong[ids].sum() / wrong.sum()),
    }


if __name__ == "__main__":
    main()
