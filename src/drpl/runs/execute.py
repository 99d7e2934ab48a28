"""From data to a finished run folder: what `drpl train` and `drpl.train` do."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w
import torch

from drpl.config.compose import Common, compose, default_preset, read_toml
from drpl.config.from_data import chosen
from drpl.data import sources as sources
from drpl.data.dataset import Dataset, DatasetSplits, check_every_class, statistics
from drpl.distributed import barrier, processes, rank
from drpl.errors import ConfigError, RunError
from drpl.files import slugify, write_atomic, write_json
from drpl.networks.build import CUSTOM, Builder
from drpl.noise.inject import corrupt
from drpl.registry import METHODS, find
from drpl.runs.display import Display
from drpl.runs.folder import Result
from drpl.runs.loggers import Logs, wanted
from drpl.runs.record import finish, provenance
from drpl.runs.run import Machine, Outcome, Run

Method = Callable[[Run, Any], Outcome]


@dataclass(frozen=True)
class Recipe:
    """A method ready to run: its name, its two goals, its settings."""

    name: str
    train: Method
    detect: Method
    config: Common
    oracle: bool = False  # is told the truth

    def towards(self, goal: str) -> Method:
        """What to run for a goal: `train`, or only `detect`."""
        return self.train if goal == "train" else self.detect


def train(
    data: str | DatasetSplits | Dataset,
    *,
    method: str | Method = "drpl",
    config: Common | None = None,
    network: Builder | None = None,
    noise: str | None = None,
    ood: str | DatasetSplits | Dataset | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Iterable[str] = (),
    seed: int = 1,
    out: Path | str | None = None,
    device: str | None = None,
    save_every: float = 10.0,
    track_every: int = 0,
    log: str | Iterable[str] | None = None,
    quiet: bool = False,
    goal: str = "train",
) -> Result:
    """Train a method on a data set, judge its labels, and write everything to a folder.

    `data` is a name, a path, or a data set in memory. `method` is a name, or a function of one's
    own with its `config`. `network`, a function of the images' shape and the number of classes,
    takes the place of the one that the settings name. `settings` are texts such as
    `"relabel.begin=20"`. Some noises draw on `ood`, a data set of other classes, or on
    `confusion`, a file that says which classes look alike. `log` names other places that show
    the epochs: tensorboard, wandb. Run it again with the same arguments to continue where it
    stopped.
    """
    names = wanted(log)
    with processes():
        loaded = sources.with_ood(as_data(data), ood)
        presets = preset_names(preset, loaded)
        recipe = prepare(method, config, presets, suited(settings, preset, method, loaded))
        if network:
            recipe = replace(recipe, config=recipe.config.model_copy(update={"network": CUSTOM}))
        loaded, manifest = corrupt(loaded, noise, seed, confusion)
        folder = Path(out) if out else default_folder(loaded.name, noise, recipe.name, seed)
        about = described(recipe, loaded, manifest, presets, seed)
        claim(folder, about)
        first = rank() == 0
        with (
            Display(quiet=quiet or not first) as display,
            Logs(folder, names if first else (), about, display) as logs,
        ):
            if finished := already(folder, goal):
                logs.follow()
                return finished
            machine = Machine(choose_device(device), save_every, track_every)
            if first:
                write_json(folder / "noise.json", manifest)
                made = provenance(machine, loaded.origin, confusion)
                write_json(folder / "provenance.json", made)
            hidden = replace(loaded, train=replace(loaded.train, truth=None))
            display.notes(loaded.notes)
            truth = loaded.train.truth if recipe.oracle else None
            run = Run(hidden, recipe.config, seed, folder, machine, display, network, truth, logs)
            outcome = recipe.towards(goal)(run, recipe.config)
            head = headed(recipe, loaded, manifest, seed, goal)
            finish(folder, outcome, loaded, recipe.config, machine, head)
    return Result.load(folder)


def detect(data: str | DatasetSplits | Dataset, **arguments: Any) -> Result:
    """Find wrong labels only: like `train`, but without training the final model."""
    return train(data, goal="detect", **arguments)


def preset_names(preset: str | Iterable[str] | None, data: DatasetSplits) -> list[str]:
    """The presets asked for, or the one that suits the data."""
    names = [preset] if isinstance(preset, str) else list(preset or ())
    return names or [default_preset(data.name, vectors=len(data.train.images.shape) == 1)]


def suited(
    settings: Iterable[str],
    preset: str | Iterable[str] | None,
    method: str | Method,
    data: DatasetSplits,
) -> list[str]:
    """The settings asked for, over those that the data choose where no preset was named."""
    own = chosen(data, method) if isinstance(method, str) and not preset else []
    return [*own, *settings]


def as_data(data: str | DatasetSplits | Dataset) -> DatasetSplits:
    """Whatever the user gave, as a data set with its normalisation."""
    if isinstance(data, str):
        return sources.load(data)
    if isinstance(data, Dataset):
        data = DatasetSplits("data", data, None, *statistics(data.images))
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
    detect_only = getattr(module, "detect_noise", module.train)
    return Recipe(method, module.train, detect_only, config, getattr(module, "ORACLE", False))


def default_folder(dataset: str, noise: str | None, method: str, seed: int) -> Path:
    """runs/digits-uniform-0.6/drpl/seed-1."""
    case = dataset if noise is None else f"{dataset}-{noise}"
    return Path("runs") / slugify(case) / method / f"seed-{seed}"


def described(
    recipe: Recipe, data: DatasetSplits, manifest: dict[str, Any], presets: list[str], seed: int
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
    return {"run": run, "settings": recipe.config.model_dump(mode="json", exclude_none=True)}


def headed(
    recipe: Recipe, data: DatasetSplits, manifest: dict[str, Any], seed: int, goal: str
) -> dict[str, Any]:
    """The first lines of `result.json`: what was run on what."""
    return {
        "method": recipe.name,
        "goal": goal,
        "dataset": data.name,
        "samples": len(data.train),
        "classes": list(data.train.classes),
        "noise": {key: manifest[key] for key in ("spec", "nominal", "realised")},
        "seed": seed,
    }


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
        write_atomic(path, tomli_w.dumps(wanted))


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
