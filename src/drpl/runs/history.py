"""The diary of a run: a line of JSON for each epoch."""

import json
from pathlib import Path
from typing import Any

from drpl.files import explain_write_errors, write_atomic

Row = dict[str, Any]  # stage, epoch, rate, terms, accuracy, images, seconds


def append(path: Path, row: Row) -> None:
    """Add an epoch."""
    with explain_write_errors(path), path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def forget(path: Path, stage: str, after: int) -> None:
    """Drop the epochs of a stage that its checkpoint does not vouch for."""
    kept = [row for row in read(path) if row["stage"] != stage or row["epoch"] <= after]
    write_atomic(path, "".join(json.dumps(row) + "\n" for row in kept))


def read(path: Path) -> list[Row]:
    """All whole lines; a kill may have torn the last one."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def tested(rows: list[Row]) -> dict[str, float | None]:
    """Test accuracy of the latest stage: after its last epoch, and after its best one."""
    found = [row["accuracy"] for row in rows if row["stage"] == rows[-1]["stage"]]
    known = found and found[-1] is not None
    return {"last": found[-1] if known else None, "best": max(found) if known else None}


def costs(rows: list[Row]) -> dict[str, float]:
    """What the epochs took."""
    return {
        "epochs": len(rows),
        "images": sum(row["images"] for row in rows),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
    }
