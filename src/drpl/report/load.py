"""What pages and figures read from run folders, finished or not; damage becomes a sentence."""

import tomllib
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drpl.errors import RunError
from drpl.files import explain_read_errors, load_arrays, read_json
from drpl.runs.folder import Result

Arrays = dict[str, NDArray[Any]]
Case = tuple[str, str | None]  # a data set and its noise
Group = tuple[str, str, NDArray[np.bool_]]  # of samples: a name, a role for the colour, a mask
Key = TypeVar("Key", bound=Hashable)


def load_runs(places: Iterable[Path | str | Result]) -> list[Result]:
    """Runs at these places: folders of runs, or of comparisons with many of them inside."""
    found: dict[Path, Result] = {}
    for place in places:
        if isinstance(place, Result):
            found[place.folder] = place
        else:
            found |= {folder: Result.load_partial(folder) for folder in _find_folders(Path(place))}
    return list(found.values())


def _find_folders(place: Path) -> list[Path]:
    if any((place / name).exists() for name in ("result.json", "config.toml")):
        return [place]
    inside = place / "runs" if (place / "runs").is_dir() else place
    folders = sorted(path.parent for path in inside.rglob("config.toml"))
    if not folders:
        raise RunError(f"{place} is not the folder of a run: it has no result.json")
    return folders


def read_arrays(run: Result, name: str, *keys: str) -> Arrays | None:
    """The arrays of a file in the folder (all, or those asked for); None if it is not there."""
    path = run.folder / name
    if not path.exists():
        return None
    with explain_read_errors(path):
        return load_arrays(path, *keys)


def read_samples(run: Result) -> Arrays | None:
    """What was found about every sample; None before the run is finished."""
    return read_arrays(run, "samples.npz")


def read_split(run: Result, stage: str) -> Arrays:
    """What a stage's split was decided by."""
    arrays = read_arrays(run, f"splits/{stage}.npz")
    if arrays is None:
        raise RunError(f"{run.folder} has no splits/{stage}.npz; copy the whole folder")
    return arrays


def read_wrong(run: Result) -> NDArray[np.bool_] | None:
    """Which labels are wrong, where the truth is known."""
    samples = read_samples(run) or {}
    return samples["wrong"].astype(bool) if "wrong" in samples else None


def group_samples(wrong: NDArray[np.bool_] | None, count: int) -> list[Group]:
    """Samples by what is known of their labels."""
    if wrong is None:
        return [("all samples", "either", np.ones(count, bool))]
    return [("clean labels", "clean", ~wrong), ("noisy labels", "noisy", wrong)]


def read_document(run: Result, name: str) -> dict[str, Any]:
    """A JSON or TOML file of the folder; empty if it is not there."""
    path = run.folder / name
    if not path.exists():
        return {}
    if path.suffix == ".json":
        return read_json(path)
    with explain_read_errors(path):
        return tomllib.loads(path.read_text("utf-8"))


def find_tracked(run: Result) -> list[str]:
    """The stages whose losses were observed more than once, in the order they were trained."""
    tracked = []
    for stage in dict.fromkeys(row["stage"] for row in run.history):
        evidence = read_arrays(run, f"evidence/{stage}.npz", "losses")
        if evidence is not None and len(evidence["losses"]) > 1:
            tracked.append(stage)
    return tracked


def infer_epochs(run: Result, stage: str, rows: int) -> NDArray[Any]:
    """After which epochs a stage's losses were observed: every k-th and the last. [rows]"""
    epochs = sum(row["stage"] == stage for row in run.history)
    every = read_document(run, "provenance.json").get("track_every") or next(
        (k for k in range(1, epochs + 1) if (epochs - 1) // k == rows - 1), 0
    )
    if not every or (epochs - 1) // every != rows - 1:  # observed otherwise: number them
        return np.arange(1, rows + 1)
    return np.append(np.arange(1, rows) * every, epochs)


def _group(runs: Iterable[Result], key: Callable[[Result], Key]) -> dict[Key, list[Result]]:
    groups: dict[Key, list[Result]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def group_by_case(runs: Iterable[Result]) -> dict[Case, list[Result]]:
    """Runs that may be compared: the same data set with the same noise."""
    return _group(runs, lambda run: (run.summary["dataset"], run.summary["noise"]["spec"]))


def group_by_method(runs: Sequence[Result]) -> dict[str, list[Result]]:
    """The seeds of each method, of a method with an overlay apart from those without."""
    return _group(runs, lambda run: run.method)


def format_case(case: Case) -> str:
    """A data set and its noise: "digits, uniform:0.6"."""
    dataset, noise = case
    return f"{dataset}, {noise or 'no noise added'}"


def format_run(run: Result) -> str:
    """A run in a title: "drpl, digits, uniform:0.6, seed 1"."""
    s = run.summary
    parts = (run.method, s["dataset"], s["noise"]["spec"], f"seed {s['seed']}")
    return ", ".join(part for part in parts if part)
