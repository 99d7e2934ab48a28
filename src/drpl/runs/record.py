"""What a finished run leaves in its folder: samples, model, result, and where it was made."""

import os
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from drpl.config.compose import Common
from drpl.data.dataset import Dataset, DatasetSplits, Origin
from drpl.data.transforms import Normalise
from drpl.detection.metrics import score
from drpl.distributed import barrier, rank, world
from drpl.files import write_arrays, write_atomic, write_json
from drpl.registry import DATASETS
from drpl.runs import history, model
from drpl.runs.folder import split_names
from drpl.runs.gallery import select_images, write_gallery
from drpl.runs.run import Machine, Outcome
from drpl.training.evaluate import predict

COMMANDS = ("drpl", "__main__")

Head = dict[str, Any]


def provenance(
    machine: Machine, origin: Origin | None = None, confusion: Path | str | None = None
) -> dict[str, Any]:
    """Where and by what a run was made, and from what data."""
    return {
        "versions": versions(),
        "device": str(machine.device),
        "processes": world(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "track_every": machine.track_every,
        "command": shlex.join(["drpl", *sys.argv[1:]])
        if Path(sys.argv[0]).stem in COMMANDS
        else None,
        "data": origin and traced(origin),
        "confusion": confusion and str(Path(confusion).resolve()),
    }


def traced(origin: Origin) -> dict[str, Any]:
    """All that decides which images a data set has; paths hold from any folder."""
    read_options = origin.read_options
    return {
        "what": resolved(origin.what),
        "ood": origin.ood and resolved(origin.ood),
        "size": read_options.size,
        "limit": read_options.limit,
        "data_dir": read_options.data_dir and str(read_options.data_dir.resolve()),
        "outside": list(read_options.outside),
        "skip_broken": read_options.skip_broken,
    }


def resolved(what: str) -> str:
    """The whole path, if it is one, or the name of a data set."""
    return what if what.partition(":")[0] in DATASETS else str(Path(what).resolve())


def versions() -> dict[str, str]:
    """What computed the numbers."""
    packages = ("drpl", "torch", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def finish(
    folder: Path,
    outcome: Outcome,
    data: DatasetSplits,
    config: Common,
    machine: Machine,
    head: Head,
) -> None:
    """Write samples, model and, last, `result.json`, whose presence means that all is there.

    `head` says what was run.
    """
    view = Normalise(data.mean, data.std, config.crop)
    probs = predict(outcome.net, data.train.images, view, machine.device).exp()
    if rank() > 0:
        barrier()
        return
    model.save(folder, outcome.net, config, data)
    table = write_samples(folder, data.train, outcome, probs)
    rows = history.read(folder / "history.jsonl")
    keep_images(folder, data.train, table, split_names(folder, rows))
    wrong = table.get("wrong")
    write_json(
        folder / "result.json",
        {
            **head,
            "accuracy": history.tested(rows),
            "flagged": int((~outcome.split.clean).sum()),
            "detection": None if wrong is None else score(table["loss"], ~table["flagged"], wrong),
            "notes": list(data.notes),
            "stages": [scored(folder, row, wrong) for row in split_names(folder, rows)],
            **history.costs(rows),
            "versions": versions(),
        },
    )
    barrier()


def write_samples(
    folder: Path, train: Dataset, outcome: Outcome, probs: Tensor
) -> dict[str, np.ndarray[Any, Any]]:
    """`samples.csv` for people and `samples.npz` for programs."""
    split = outcome.split
    confidence, suggested = probs.max(1)
    table = {
        "given": train.labels.numpy(),
        "suggested": suggested.numpy(),
        "confidence": confidence.numpy(),
        "loss": split.losses.numpy(),
        "p_noisy": split.noisy.numpy(),
        "flagged": (~split.clean).numpy(),
    }
    if train.truth is not None:
        table["true"] = train.truth.labels.numpy()
        table["wrong"] = train.truth.is_noisy(train.labels).numpy()
        table["in_distribution"] = train.truth.in_distribution.numpy()
    write_arrays(folder / "samples.npz", table)
    names = np.array(train.classes, dtype=object)
    frame = pd.DataFrame(
        {
            "id": np.arange(len(train)),
            "path": train.paths or "",
            "given_label": names[table["given"]],
            "suggested_label": names[table["suggested"]],
            "confidence": table["confidence"],
            "loss": table["loss"],
            "p_noisy": table["p_noisy"],
            "flagged": table["flagged"],
        }
    )
    write_atomic(
        folder / "samples.csv", frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    )
    return table


def keep_images(
    folder: Path, train: Dataset, table: dict[str, np.ndarray[Any, Any]], splits: list[str]
) -> None:
    """`gallery.npz`: small copies of the images that a report shows; none of vectors."""
    if len(train.images.shape) != 3:
        return
    p_noisy = []
    for stage in splits:
        with np.load(folder / "splits" / f"{stage}.npz") as arrays:
            p_noisy.append(arrays["noisy"])
    ids = select_images(table, p_noisy, len(train.classes)).ids
    pixels = train.images.load(torch.tensor(ids))
    write_gallery(folder / "gallery.npz", ids, pixels.cpu().numpy())


def scored(folder: Path, stage: str, wrong: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    """What a split decided and, where the truth is known, how well."""
    record = model.read_json(folder / "splits" / f"{stage}.json")
    if wrong is not None:
        with np.load(folder / "splits" / f"{stage}.npz") as arrays:
            record["detection"] = score(arrays["losses"], arrays["clean"], wrong)
    return record
