"""Presets (TOML) and settings become one frozen, checked configuration.

Layers, later ones win: the shared preset file, the method's own, a user's file, settings (from
Python a mapping, on the command line `--set a.b=c`). From each shipped file come its table
[default] and the tables that `--preset` names.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from drpl.config.effort import shorten
from drpl.config.settings import Settings
from drpl.errors import ConfigError, did_you_mean
from drpl.registry import find

Tree = dict[str, Any]  # nested settings: {"relabel": {"begin": 20}}
KeyPath = tuple[str, ...]
Layer = tuple[str, Mapping[str, Any]]  # where some settings came from, and they
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
    "figure1": "overlay: cross-entropy and mixup for 40 epochs at 0.1, as in the paper's Figure 1",
    "inception": "overlay: DivideMix's network for WebVision, on images of 342 pixels",
    "finetune": "overlay: networks begin with ImageNet's weights and need few epochs",
    "released": "overlay: what the authors' code does where it departs from the paper",
    "literal": "overlay: DRPL as the paper has it, without what this library adds to it",
    "fast": "overlay: a third of the epochs, with rates that rise and fall once",
}
OVERLAYS = ("released", "literal", "fast")  # they lie over what else suits the data
OLD_NAMES = {"rates": "lr"}  # keys of earlier versions, still read


def default_preset(dataset: str, *, vectors: bool = False) -> str:
    """The preset that has the data set's name, or the one for data of one's own."""
    if vectors:
        return "vectors"
    name = dataset.partition(":")[0]
    name = {"cifar10n": "cifar10", "cifar100n": "cifar100"}.get(name, name)
    return name if name in PRESETS else "small"


def compose(
    schema: type[C], method: str, presets: Iterable[str], settings: Mapping[str, Any] | None = None
) -> C:
    """The configuration of a method from presets (names or TOML files) and settings."""
    presets = list(presets)
    own = [preset for preset in presets if Path(preset).suffix == ".toml"]
    named = [preset for preset in presets if preset not in own]
    for preset in named:
        find("preset", preset, PRESETS)
    own_layers = [*_read_shipped(method, named, schema)] or [_read_defaults(schema)]
    shipped = [*_read_shipped("shared", named, schema), *own_layers]
    asked = [(preset, read_toml(Path(preset))) for preset in own] + [("settings", settings or {})]
    shorter = shorten(schema, merge_layers(shipped), merge_layers([*shipped, *asked]))
    return _validate(schema, [*shipped, ("effort", shorter), *asked])


def change_settings(config: C, settings: Mapping[str, Any]) -> C:
    """A configuration with other settings laid over it."""
    if not settings:
        return config
    base = config.model_dump(mode="json", round_trip=True)
    return _validate(type(config), [("settings", settings)], base)


def parse_settings(texts: Iterable[str] | None) -> Tree:
    """`relabel.begin=20` as {"relabel": {"begin": 20}}; a value is TOML, or else a plain word."""
    settings: Tree = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not all(part.strip() for part in key.split(".")) or not text.isprintable():
            raise ConfigError(f"--set {text}: write key=value, for example --set relabel.begin=20")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        merge(settings, {key.strip(): parsed})
    return settings


def read_toml(path: Path) -> Tree:
    """A user's own preset file, or the settings of a run."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no preset file {path}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read preset file {path}: {error}") from error


def merge(into: Tree, tree: Mapping[str, Any]) -> Tree:
    """Lay `tree` over `into`, table by table; the key "a.b" means b in the table a."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"settings must be a mapping such as {{'width': 32}}, got {tree!r}")
    for name, value in tree.items():
        key, dot, rest = str(name).partition(".")
        value = {rest: value} if dot else value
        key = OLD_NAMES.get(key, key)
        if isinstance(value, Mapping):
            inner = into.get(key)
            into[key] = merge(inner if isinstance(inner, dict) else {}, value)
        else:
            into[key] = value
    return into


def merge_layers(layers: Iterable[Layer]) -> Tree:
    """The settings of all layers, later ones over earlier ones."""
    merged: Tree = {}
    for _, tree in layers:
        merge(merged, tree)
    return merged


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a.b": value, ...}."""
    pairs: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        pairs |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return pairs


def _read_shipped(name: str, presets: Iterable[str], schema: type[Settings]) -> Iterator[Layer]:
    """[default] and the named tables of a shipped preset file."""
    file = files("drpl.config.presets").joinpath(f"{name}.toml")
    if not file.is_file():
        return
    tables = tomllib.loads(file.read_text("utf-8"))
    for table in ("default", *presets):
        if table in tables:
            tree = tables[table]
            if name == "shared":  # holds more than a method from outside may have fields for
                tree = {key: value for key, value in tree.items() if key in schema.model_fields}
            yield f"presets/{name}.toml [{table}]", tree


def _read_defaults(schema: type[Settings]) -> Layer:
    """The tables that a method without a preset file, of another package, has as defaults.

    As a layer, so that one number of a table can be changed and the others stay.
    """
    fields = schema.model_fields.items()
    tables = {name: one.default for name, one in fields if isinstance(one.default, Settings)}
    return "defaults", {name: table.model_dump(mode="json") for name, table in tables.items()}


def _validate(schema: type[C], layers: Iterable[Layer], base: Tree | None = None) -> C:
    """Merge the layers and check the result; an error names the layer that caused it.

    The layers lie over `base`, in whose keys a dot means nothing.
    """
    merged = base or {}
    origin = dict.fromkeys(_list_paths(merged), "config")
    for source, tree in layers:
        merge(merged, tree)
        origin |= dict.fromkeys(_list_paths(merge({}, tree)), source)
    try:
        return schema.model_validate_json(json.dumps(merged, default=_to_plain), strict=True)
    except ValidationError as error:
        raise ConfigError(_explain(schema, error, origin)) from None


def _to_plain(value: Any) -> Any:
    """A number of NumPy's as Python's own."""
    if not hasattr(value, "item"):
        raise ConfigError(f"settings: {value!r} is no number, text, list or table")
    return value.item()


def _list_paths(tree: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every table and every value."""
    for key, value in tree.items():
        yield (*path, key)
        if isinstance(value, Mapping):
            yield from _list_paths(value, (*path, key))


def _explain(schema: type[Settings], error: ValidationError, origin: Mapping[KeyPath, str]) -> str:
    """The first complaint in one sentence: where, what was wanted, what came."""
    first = error.errors()[0]
    path = tuple(str(part) for part in first["loc"])
    source = next(
        (origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), "settings"
    )
    name = ".".join(path)
    if first["type"] == "extra_forbidden":
        known: Any = schema.model_fields
        for part in path[:-1]:
            known = getattr(known[part].annotation, "model_fields", {}) if part in known else {}
        return f"{source}: unknown key {name!r}; {did_you_mean(path[-1], known)}"
    if first["type"] == "missing":
        return f"setting {name!r} is missing; give it in a preset or with --set {name}=..."
    wanted = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{source}: {name} {wanted[0].lower()}{wanted[1:]}, got {first['input']!r}"
