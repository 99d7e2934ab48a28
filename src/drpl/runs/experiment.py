"""The two records that every run is made from, built once at the edge and passed whole.

`Experiment` is all that decides what comes out; `Execution` is how it is carried out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tomli_w

from drpl.config.compose import (
    OVERLAYS,
    Tree,
    change_settings,
    compose,
    default_preset,
    merge,
)
from drpl.config.from_data import suit_to_vectors
from drpl.config.settings import Common
from drpl.data.dataset import Dataset, DatasetSplits, check_every_class, statistics
from drpl.data.projection import choose_dimensions
from drpl.data.sources import load, with_ood
from drpl.errors import ConfigError
from drpl.files import digest, slugify
from drpl.networks.build import CUSTOM, Builder
from drpl.noise.inject import corrupt
from drpl.registry import METHODS, find, is_oracle
from drpl.runs.display import Display
from drpl.runs.own_code import identify_own, name_own

if TYPE_CHECKING:
    from drpl.runs.run import Outcome

Goal = Literal["train", "detect"]
AnyData = str | DatasetSplits | Dataset  # a name or path, or data in memory
Recipe = Callable[..., "Outcome"]  # (run, config) -> what came out


@dataclass(frozen=True)
class Method:
    """A method by its name: what it runs for each goal, and what it declares of itself."""

    name: str
    train: Recipe
    detect: Recipe  # the list of wrong labels without the final model, where that is less
    oracle: bool = False  # its run has the truth
    source: str = ""  # of a user's own: what tells its code from another's

    @classmethod
    def load(cls, method: "str | Recipe") -> "Method":
        """The method of that name, or a function of the user's own."""
        if not isinstance(method, str):
            return cls(name_own(method), method, method, source=identify_own(method))
        module = find("method", method, METHODS).load()
        detect = getattr(module, "detect_noise", module.train)
        return cls(method, module.train, detect, is_oracle(method))


@dataclass(frozen=True)
class Experiment:
    """A method with its settings on data with their noise: all that decides the outcome."""

    data: DatasetSplits  # as it is trained on, with its noise
    manifest: dict[str, Any]  # of the noise
    method: Method
    config: Common
    presets: tuple[str, ...] = ()
    seed: int = 1
    goal: Goal = "train"
    network: Builder | None = None  # the user's own, in place of the one that the config names
    confusion: Path | None = None  # the file that non-uniform noise was drawn by

    @classmethod
    def build(
        cls,
        data: AnyData,
        *,
        method: str | Recipe = "drpl",
        config: Common | None = None,
        network: Builder | None = None,
        noise: str | None = None,
        ood: AnyData | None = None,
        confusion: Path | str | None = None,
        preset: str | Iterable[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 1,
        goal: Goal = "train",
    ) -> "Experiment":
        """Read the data, compose the configuration, and corrupt the labels if that is asked for.

        The arguments are those of `drpl.train`.
        """
        clean = with_ood(as_splits(data), ood)
        if clean.train.tags is not None:
            raise ConfigError("these images have several labels each; training takes one")
        asked = [preset] if isinstance(preset, str) else list(preset or ())
        presets = list_presets(asked, clean)
        loaded = Method.load(method)
        if config is not None:
            if asked:
                raise ConfigError("config=... has every setting; leave out preset=...")
            config = change_settings(config, settings or {})
        else:
            if not isinstance(method, str):
                raise ConfigError("a method of your own needs its settings: pass config=...")
            suited: Tree = {}
            if presets != asked and len(clean.train.images.shape) == 1:
                suited |= suit_settings(method, clean)
            config = compose_for(method, presets, merge(suited, settings or {}))
        if network:
            config = config.model_copy(update={"network": CUSTOM})
        file = Path(confusion) if confusion else None
        noisy, manifest = corrupt(clean, noise, seed, file)
        return cls(noisy, manifest, loaded, config, tuple(presets), seed, goal, network, file)

    @property
    def recipe(self) -> Recipe:
        """What to run for the goal."""
        return self.method.train if self.goal == "train" else self.method.detect

    def describe(self) -> Tree:
        """All that decides the outcome: the tables `run` and `settings` of config.toml."""
        train = self.data.train
        run = {
            "method": self.method.name,
            "dataset": self.data.name,
            "samples": len(train),
            "classes": len(train.classes),
            "labels": self.manifest["labels_digest"],
            "noise": self.manifest["spec"] or "none",
            "preset": ", ".join(self.presets),
            "seed": self.seed,
            **self._identity,
        }
        return {"run": run, "settings": self.config.describe()}

    @cached_property
    def _identity(self) -> dict[str, str]:
        """Which images these are, in what shape, which they are tested on, and by whose code."""
        train, test, made = self.data.train, self.data.test, self.data.encoding
        found = {
            "shape": " x ".join(map(str, train.images.shape)),
            "images": train.identify(),
            "test": test.identify() if test else "none",
        }
        if self.method.source:
            found["method_source"] = self.method.source
        if self.network:
            found["network_source"] = identify_own(self.network)
        if made:
            mirrored = ", mirrored" if made.mirrored else ""
            found["encoder"] = f"{made.encoder}, {made.size} pixels{mirrored}, {made.weights}"
        return found

    @cached_property
    def toml(self) -> str:
        """What config.toml says."""
        return tomli_w.dumps(self.describe())

    @cached_property
    def digest(self) -> str:
        """Tells one experiment from another."""
        return digest(self.toml.encode())

    def default_folder(self) -> Path:
        """runs/digits-uniform-0.6/drpl/seed-1."""
        spec = self.manifest["spec"]
        case = f"{self.data.name}-{spec}" if spec else self.data.name
        return Path("runs") / slugify(case) / self.method.name / f"seed-{self.seed}"


@dataclass(frozen=True)
class Execution:
    """How a run is carried out; none of it changes the model or its judgement."""

    folder: Path | None = None  # None: runs/DATA-NOISE/METHOD/seed-SEED
    device: str | None = None  # None: a GPU if there is one
    threads: int | None = None  # of torch; None: as they are
    save_every: float = 10.0  # seconds between checkpoints, at least; 0: after every epoch
    track_every: int = 0  # epochs between additional passes that observe every loss; 0: none
    loggers: tuple[str, ...] = ()  # tensorboard, wandb, mlflow
    quiet: bool = False
    display: Display | None = None  # one that is shown already; None: one of its own, if not quiet
    wait: bool = False  # for another process that writes into the folder; else that is an error
    on_epoch: Callable[[str, int], None] | None = None  # (stage, epoch), before it is saved


def as_splits(data: AnyData) -> DatasetSplits:
    """Whatever the user gave, as a data set with its normalisation."""
    if isinstance(data, str):
        return load(data)
    if isinstance(data, Dataset):
        data = DatasetSplits("data", data, None, *statistics(data.images))
    check_every_class(data.train.entries, data.train.classes)
    return data


def list_presets(asked: list[str], data: DatasetSplits) -> list[str]:
    """The presets asked for; overlays alone lie over the one that suits the data."""
    if not set(asked) <= set(OVERLAYS):
        return asked
    return [default_preset(data.name, vectors=len(data.train.images.shape) == 1), *asked]


def suit_settings(method: str, data: DatasetSplits) -> Tree:
    """Settings of a method by its name that follow from vectors: batches and dimensions."""
    train, dimensions = data.train, choose_dimensions(data)
    return suit_to_vectors(load_schema(method), len(train), len(train.classes), dimensions)


def compose_for(method: str, presets: Iterable[str], settings: Mapping[str, Any]) -> Common:
    """The typed configuration of a method by its name."""
    return compose(load_schema(method), method, presets, settings)


def load_schema(method: str) -> type[Common]:
    """The settings that a method by its name takes."""
    schema: type[Common] = find("method", method, METHODS).load().Config
    return schema
