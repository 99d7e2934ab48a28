"""What lies in run folders, finished or not. Damage is put in words."""

import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpl.errors import RunError
from drpl.files import explain_read_errors
from drpl.runs.folder import Result

Arrays = dict[str, NDArray[Any]]


def find(places: Iterable[Path | str]) -> list[Result]:
    """The runs at these places: folders of runs, or of comparisons with many of them inside."""
    folders: dict[Path, None] = {}
    for place in map(Path, places):
        if any((place / name).exists() for name in ("result.json", "config.toml")):
            folders[place] = None
            continue
        inside = place / "runs" if (place / "runs").is_dir() else place
        found = sorted(path.parent for path in inside.rglob("config.toml"))
        if not found:
            raise RunError(f"{place} is not the folder of a run: it has no result.json")
        folders |= dict.fromkeys(found)
    return [Result.load_partial(folder) for folder in folders]


def arrays(run: Result, name: str, *keys: str) -> Arrays | None:
    """The arrays of a file in the folder (all, or those asked for); None if it is not there."""
    path = run.folder / name
    if not path.exists():
        return None
    with explain_read_errors(path), np.load(path, allow_pickle=False) as found:
        return {key: found[key] for key in keys or found.files}


def samples(run: Result) -> Arrays | None:
    """What was found about every sample; None before the run is finished."""
    return arrays(run, "samples.npz")


def split(run: Result, stage: str) -> Arrays:
    """What a stage's split was decided by."""
    found = arrays(run, f"splits/{stage}.npz")
    if found is None:
        raise RunError(f"{run.folder} has no splits/{stage}.npz; copy the whole folder")
    return found


def wrong(run: Result) -> NDArray[np.bool_] | None:
    """Which labels are wrong, where the truth is known."""
    found = samples(run) or {}
    return found["wrong"].astype(bool) if "wrong" in found else None


def parts(known: NDArray[np.bool_] | None, count: int) -> list[tuple[str, str, Any]]:
    """Samples by what is known of their labels: a name, a role for the colour, a mask."""
    if known is None:
        return [("all samples", "either", np.ones(count, bool))]
    return [("clean labels", "clean", ~known), ("noisy labels", "noisy", known)]


def document(run: Result, name: str) -> dict[str, Any]:
    """A JSON or TOML file of the folder; empty if it is not there."""
    path = run.folder / name
    if not path.exists():
        return {}
    with explain_read_errors(path):
        text = path.read_text("utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        return dict(found)


def tracked(run: Result) -> list[str]:
    """The stages whose losses were observed more than once, in the order they were trained."""
    names = dict.fromkeys(row["stage"] for row in run.history)
    found = []
    for name in names:
        losses = arrays(run, f"evidence/{name}.npz", "losses")
        if losses is not None and len(losses["losses"]) > 1:
            found.append(name)
    return found


def observed(run: Result, stage: str, rows: int) -> NDArray[Any]:
    """After which epochs a stage's losses were observed: every k-th and the last. [rows]"""
    epochs = sum(row["stage"] == stage for row in run.history)
    every = document(run, "provenance.json").get("track_every") or next(
        (k for k in range(1, epochs + 1) if (epochs - 1) // k == rows - 1), 0
    )
    if not every or (epochs - 1) // every != rows - 1:  # observed otherwise: number them
        return np.arange(1, rows + 1)
    return np.append(np.arange(1, rows) * every, epochs)


def cases(runs: Sequence[Result]) -> dict[tuple[str, str | None], list[Result]]:
    """Runs that may be compared: the same data set with the same noise."""
    found: dict[tuple[str, str | None], list[Result]] = {}
    for run in runs:
        found.setdefault((run.summary["dataset"], run.summary["noise"]["spec"]), []).append(run)
    return found


def by_method(runs: Sequence[Result]) -> dict[str, list[Result]]:
    """The seeds of each method."""
    found: dict[str, list[Result]] = {}
    for run in runs:
        found.setdefault(run.summary["method"], []).append(run)
    return found


def named(case: tuple[str, str | None]) -> str:
    """A data set and its noise in words."""
    dataset, noise = case
    return f"{dataset}, {noise or 'no noise added'}"


def title(run: Result) -> str:
    """drpl, digits, uniform:0.6, seed 1."""
    s = run.summary
    parts = (s["method"], s["dataset"], s["noise"]["spec"], f"seed {s['seed']}")
    return ", ".join(part for part in parts if part)
