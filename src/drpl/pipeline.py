"""From data to a finished run folder: what `drpl train` and `drpl.train` do."""

import inspect
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
import torch
from torch import Tensor

from drpl import data as sources
from drpl import history, model
from drpl.catalogue import find
from drpl.config import Common, compose, default_preset, read_toml
from drpl.data.augment import Normalise
from drpl.data.dataset import Data, Dataset, check_every_class, statistics
from drpl.data.outside import with_outside
from drpl.detection.metrics import score
from drpl.display import Display
from drpl.distributed import barrier, processes, rank, world
from drpl.errors import ConfigError, RunError
from drpl.files import digest, write_arrays, write_json, write_whole
from drpl.methods import METHODS
from drpl.networks import CUSTOM, Builder
from drpl.noise import confusion as alike
from drpl.noise import inject
from drpl.rehearsal import Planned, Rehearsal, Speeds, peak_memory
from drpl.result import Result
from drpl.run import Machine, Outcome, Run
from drpl.training.observe import predict

SHOWN = 5  # notes on the data that are shown before training

Method = Callable[[Run, Any], Outcome]


@dataclass(frozen=True)
class Recipe:
    """A method ready to run: its name, its two goals, its settings."""

    name: str
    train: Method
    detect: Method
    config: Common


def train(
    data: str | Data | Dataset,
    *,
    method: str | Method = "drpl",
    config: Common | None = None,
    network: Builder | None = None,
    noise: str | None = None,
    ood: str | Data | Dataset | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Iterable[str] = (),
    seed: int = 1,
    out: Path | str | None = None,
    device: str | None = None,
    save_every: float = 10.0,
    track_every: int = 0,
    quiet: bool = False,
    goal: str = "train",
) -> Result:
    """Train a method on a data set, judge its labels, and write everything to a folder.

    `data` is a name, a path, or a data set in memory. `method` is a name, or a function of one's
    own with its `config`. `network`, a function of the images' shape and the number of classes,
    takes the place of the one that the settings name. `settings` are texts such as
    `"relabel.begin=20"`. Some noises draw on `ood`, a data set of other classes, or on
    `confusion`, a file that says which classes look alike. Run it again with the same arguments
    to continue where it stopped.
    """
    with processes():
        loaded = with_outside(as_data(data), ood)
        presets = preset_names(preset, loaded)
        recipe = prepare(method, config, presets, settings)
        if network:
            recipe = replace(recipe, config=recipe.config.model_copy(update={"network": CUSTOM}))
        loaded, manifest = corrupted(loaded, noise, seed, confusion)
        folder = Path(out) if out else default_folder(loaded.name, noise, recipe.name, seed)
        claim(folder, described(recipe, loaded, manifest, presets, seed))
        if finished := already(folder, goal):
            return finished
        machine = Machine(choose_device(device), save_every, track_every)
        if rank() == 0:
            write_json(folder / "noise.json", manifest)
            write_json(folder / "provenance.json", provenance(machine))
        with Display(quiet=quiet or rank() > 0) as display:
            hidden = replace(loaded, train=replace(loaded.train, truth=None))
            for note in loaded.notes[:SHOWN]:
                display.note(note)
            if len(loaded.notes) > SHOWN:
                display.note(f"and {len(loaded.notes) - SHOWN} more, which result.json lists")
            run = Run(hidden, recipe.config, seed, folder, machine, display, network)
            outcome = (recipe.train if goal == "train" else recipe.detect)(run, recipe.config)
            finish(folder, recipe, loaded, manifest, outcome, seed, machine, goal)
    return Result.load(folder)


def detect(data: str | Data | Dataset, **arguments: Any) -> Result:
    """Find wrong labels only: like `train`, but without training the final model."""
    return train(data, goal="detect", **arguments)


@dataclass(frozen=True)
class Plan:
    """What a run would take on this machine, measured on a few steps."""

    stages: list[Planned]
    memory: int  # bytes at the peak

    @property
    def seconds(self) -> float:
        """The whole run."""
        return sum(stage.seconds for stage in self.stages)


def rehearse(
    data: str | Data | Dataset,
    *,
    method: str | Method = "drpl",
    config: Common | None = None,
    noise: str | None = None,
    ood: str | Data | Dataset | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Iterable[str] = (),
    seed: int = 1,
    device: str | None = None,
    speeds: Speeds | None = None,
) -> Plan:
    """Go through a method on a data set without training it: stages, steps, time and memory."""
    loaded = with_outside(as_data(data), ood)
    recipe = prepare(method, config, preset_names(preset, loaded), settings)
    loaded, _ = corrupted(loaded, noise, seed, confusion)
    machine = Machine(choose_device(device))
    with Display(quiet=True) as display:
        arguments = (loaded, recipe.config, seed, Path(), machine, display)
        rehearsal = Rehearsal(*arguments, speeds={} if speeds is None else speeds)
        recipe.train(rehearsal, recipe.config)
    return Plan(rehearsal.plan, peak_memory(machine.device))


def preset_names(preset: str | Iterable[str] | None, data: Data) -> list[str]:
    """The presets asked for, or the one that suits the data."""
    names = [preset] if isinstance(preset, str) else list(preset or ())
    return names or [default_preset(data.name)]


def as_data(data: str | Data | Dataset) -> Data:
    """Whatever the user gave, as a data set with its normalisation."""
    if isinstance(data, str):
        return sources.load(data)
    if isinstance(data, Dataset):
        data = Data("data", data, None, *statistics(data.images))
    check_every_class(data.train.labels, data.train.classes)
    return data


def prepare(
    method: str | Method, config: Common | None, presets: list[str], settings: Iterable[str]
) -> Recipe:
    """The method and its checked settings."""
    if not isinstance(method, str):
        if config is None:
            raise ConfigError("a method of your own needs its settings: pass config=...")
        return Recipe(Path(inspect.getfile(method)).stem, method, method, config)
    module = find("method", method, METHODS).load()
    config = config or compose(module.Config, method, presets, settings)
    return Recipe(method, module.train, getattr(module, "detect_noise", module.train), config)


def corrupted(
    data: Data, noise: str | None, seed: int, confusion: Path | str | None = None
) -> tuple[Data, dict[str, Any]]:
    """The data with the asked noise, and a manifest of it."""
    if noise:
        lookalikes = alike.read(Path(confusion)) if confusion else None
        noisy, manifest = inject(data, noise, seed, lookalikes)
        return replace(data, train=noisy), manifest
    truth = data.train.truth
    wrong = None if truth is None else float(truth.is_noisy(data.train.labels).double().mean())
    labels_digest = digest(data.train.labels.numpy().tobytes())
    return data, {"spec": None, "nominal": None, "realised": wrong, "labels_digest": labels_digest}


def default_folder(dataset: str, noise: str | None, method: str, seed: int) -> Path:
    """runs/digits-uniform-0.6/drpl/seed-1."""
    case = dataset if noise is None else f"{dataset}-{noise}"
    tidy = "".join(sign if sign.isalnum() or sign in "-_.+" else "-" for sign in case)
    return Path("runs") / tidy / method / f"seed-{seed}"


def described(
    recipe: Recipe, data: Data, manifest: dict[str, Any], presets: list[str], seed: int
) -> dict[str, Any]:
    """All that decides what comes out of a run."""
    run = {
        "method": recipe.name,
        "dataset": data.name,
        "samples": len(data.train),
        "classes": len(data.train.classes),
        "labels": manifest["labels_digest"],
        "noise": manifest["spec"] or "none",
        "preset": ", ".join(presets),
        "seed": seed,
    }
    return {"run": run, "settings": recipe.config.model_dump(mode="json")}


def claim(folder: Path, wanted: dict[str, Any]) -> None:
    """Take a folder for this run, or say that another run lives there."""
    path = folder / "config.toml"
    if path.exists():
        found = flat(read_toml(path))
        asked = flat(wanted)
        for key in sorted(found.keys() | asked.keys(), key=lambda k: (k.split(".")[0], k)):
            if found.get(key) != asked.get(key):
                name = key.removeprefix("run.").removeprefix("settings.")
                raise RunError(
                    f"run folder {folder} was made with {name} {found.get(key)}, but "
                    f"{asked.get(key)} was asked for; use another folder or the same settings"
                )
    barrier()
    if rank() == 0 and not path.exists():
        write_whole(path, tomli_w.dumps(wanted))


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a.b": value, ...}."""
    pairs: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            pairs |= flat(value, f"{prefix}{key}.")
        else:
            pairs[prefix + key] = value
    return pairs


def already(folder: Path, goal: str) -> Result | None:
    """The result, if this run was finished before with at least this goal."""
    if not (folder / "result.json").exists():
        return None
    result = Result.load(folder)
    return result if result.summary["goal"] in ("train", goal) else None


def choose_device(name: str | None) -> torch.device:
    """The one asked for, or a GPU if there is one."""
    chosen = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if chosen == "cuda":
            return torch.device("cuda", torch.cuda.current_device())
        device = torch.device(chosen)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device {chosen!r} cannot be used: {str(error).splitlines()[0]}"
        ) from None
    return device


def provenance(machine: Machine) -> dict[str, Any]:
    """Where and by what a run was made."""
    return {
        "versions": versions(),
        "device": str(machine.device),
        "processes": world(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "command": shlex.join(["drpl", *sys.argv[1:]])
        if Path(sys.argv[0]).stem in COMMANDS
        else None,
    }


COMMANDS = ("drpl", "__main__")


def versions() -> dict[str, str]:
    """What computed the numbers."""
    packages = ("drpl", "torch", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def finish(
    folder: Path,
    recipe: Recipe,
    data: Data,
    manifest: dict[str, Any],
    outcome: Outcome,
    seed: int,
    machine: Machine,
    goal: str,
) -> None:
    """Write samples, model and, last, `result.json`, whose presence means that all is there."""
    view = Normalise(data.mean, data.std, recipe.config.crop)
    probs = predict(outcome.net, data.train.images, view, machine.device).exp()
    if rank() > 0:
        barrier()
        return
    model.save(folder, outcome.net, recipe.config, data)
    table = write_samples(folder, data.train, outcome, probs)
    rows = history.read(folder / "history.jsonl")
    last = [row["accuracy"] for row in rows if row["stage"] == rows[-1]["stage"]]
    tested = last and last[-1] is not None
    wrong = table.get("wrong")
    write_json(
        folder / "result.json",
        {
            "method": recipe.name,
            "goal": goal,
            "dataset": data.name,
            "samples": len(data.train),
            "classes": list(data.train.classes),
            "noise": {key: manifest[key] for key in ("spec", "nominal", "realised")},
            "seed": seed,
            "accuracy": {
                "last": last[-1] if tested else None,
                "best": max(last) if tested else None,
            },
            "flagged": int((~outcome.split.clean).sum()),
            "detection": None if wrong is None else score(table["loss"], ~table["flagged"], wrong),
            "notes": list(data.notes),
            "stages": [scored(folder, row, wrong) for row in splits_in_order(folder, rows)],
            "epochs": len(rows),
            "seconds": round(sum(row["seconds"] for row in rows), 1),
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
    write_whole(
        folder / "samples.csv", frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    )
    return table


def splits_in_order(folder: Path, rows: list[history.Row]) -> list[str]:
    """The stages that were followed by a split, in the order they were trained."""
    stages = dict.fromkeys(row["stage"] for row in rows)
    return [name for name in stages if (folder / "splits" / f"{name}.json").exists()]


def scored(folder: Path, stage: str, wrong: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    """What a split decided and, where the truth is known, how well."""
    record = model.read_json(folder / "splits" / f"{stage}.json")
    if wrong is not None:
        with np.load(folder / "splits" / f"{stage}.npz") as arrays:
            record["detection"] = score(arrays["losses"], arrays["clean"], wrong)
    return record
