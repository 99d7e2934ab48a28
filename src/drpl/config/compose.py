"""Presets (TOML) and overrides become one frozen, checked configuration.

Layers, later ones win: the shared preset file, the method's own, a user's file, `--set a.b=c`.
From each shipped file come its table [default] and the tables that `--preset` names.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from drpl.config.settings import Settings
from drpl.errors import ConfigError, did_you_mean

Tree = dict[str, Any]
C = TypeVar("C", bound=Settings)

PRESETS = {
    "small": "a few thousand images of one's own; the default for folders and arrays",
    "vectors": "embeddings or tables of features; the default for them",
    "digits": "the embedded digits",
    "cifar10": "the paper's settings for CIFAR-10",
    "cifar100": "the paper's settings for CIFAR-100",
    "imagenet32": "the paper's settings for ImageNet32",
    "imagenet64": "the paper's settings for ImageNet64",
    "webvision": "the paper's settings for WebVision, first 50 classes",
    "mini": "small images and narrow networks: the paper's comparison on a laptop",
    "released": "overlay: what the authors' code does where it departs from the paper",
}


class Common(Settings):
    """What every method's configuration has: the network and the views it is shown."""

    network: str = "auto"
    """A name from `drpl list networks`; auto suits the data."""
    width: int = Field(default=64, gt=0)
    """Channels of the first stage; the paper's networks have 64."""
    padding: float = Field(default=0.125, ge=0, lt=1)
    """Zero-padding before the random crop, as a share of the side."""
    crop: float = Field(default=1.0, gt=0, le=1)
    """Share of the side that is cropped: at random to train, the centre to test."""
    flip: bool = True
    """Whether images are mirrored at random."""


class Layer:
    """Some settings and where they came from."""

    def __init__(self, source: str, tree: Tree) -> None:
        self.source, self.tree = source, tree


def default_preset(dataset: str, *, vectors: bool = False) -> str:
    """The preset that has the data set's name, or the one for data of one's own."""
    if vectors:
        return "vectors"
    name = dataset.partition(":")[0]
    name = {"cifar10n": "cifar10", "cifar100n": "cifar100"}.get(name, name)
    return name if name in PRESETS else "small"


def compose(schema: type[C], method: str, presets: Iterable[str], overrides: Iterable[str]) -> C:
    """The configuration of a method from presets (names or TOML files) and `a.b=c` texts."""
    named, own = [], []
    for preset in presets:
        if Path(preset).suffix == ".toml":
            own.append(Layer(preset, read_toml(Path(preset))))
        elif preset in PRESETS:
            named.append(preset)
        else:
            raise ConfigError(f"unknown preset {preset!r}; {did_you_mean(preset, PRESETS)}")
    layers = [*shipped("shared", named, schema), *shipped(method, named, schema), *own]
    layers += [assignment(text) for text in overrides]
    return validated(schema, layers)


def shipped(name: str, presets: Iterable[str], schema: type[Settings]) -> Iterator[Layer]:
    """[default] and the named tables of a shipped preset file."""
    file = files("drpl.config.presets").joinpath(f"{name}.toml")
    if not file.is_file():
        return
    tables = tomllib.loads(file.read_text())
    for table in ("default", *presets):
        if table in tables:
            tree = tables[table]
            if name == "shared":  # holds more than a method from outside may have fields for
                tree = {key: value for key, value in tree.items() if key in schema.model_fields}
            yield Layer(f"presets/{name}.toml [{table}]", tree)


def read_toml(path: Path) -> Tree:
    """A user's own preset file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"there is no preset file {path}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read preset file {path}: {error}") from error


def assignment(text: str) -> Layer:
    """`relabel.begin=20` as a layer; the value is TOML, or else a plain word."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {text}: write key=value, for example --set relabel.begin=20")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return Layer(f"--set {text}", parsed)


def validated(schema: type[C], layers: Iterable[Layer]) -> C:
    """Merge the layers and check the result; an error names the layer that caused it."""
    merged: Tree = {}
    origin: dict[tuple[str, ...], str] = {}
    for layer in layers:
        merge(merged, layer.tree)
        origin |= dict.fromkeys(leaves(layer.tree), layer.source)
    try:
        return schema.model_validate_json(json.dumps(merged), strict=True)
    except ValidationError as error:
        raise ConfigError(sentence(schema, error, origin)) from None


def merge(into: Tree, tree: Mapping[str, Any]) -> None:
    """Lay `tree` over `into`, table by table."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every table and every value."""
    for key, value in tree.items():
        yield (*path, key)
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))


def sentence(
    schema: type[Settings], error: ValidationError, origin: Mapping[tuple[str, ...], str]
) -> str:
    """The first complaint in a user's words: where, what was wanted, what came."""
    first = error.errors()[0]
    path = tuple(str(part) for part in first["loc"])
    source = next(
        (origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), "settings"
    )
    name = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = fields_at(schema, path[:-1])
        return f"{source}: unknown key {name!r}; {did_you_mean(path[-1], known)}"
    if first["type"] == "missing":
        return f"setting {name!r} is missing; give it in a preset or with --set {name}=..."
    wanted = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{source}: {name} {wanted[0].lower()}{wanted[1:]}, got {first['input']!r}"


def fields_at(schema: type[Settings], path: tuple[str, ...]) -> list[str]:
    """The keys that exist in the table at `path`."""
    for part in path:
        annotation = schema.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, Settings)):
            return []
        schema = annotation
    return list(schema.model_fields)
