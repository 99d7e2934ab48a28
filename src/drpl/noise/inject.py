"""The noise laboratory: corrupt labels on purpose, and say exactly what was done."""

import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drpl.errors import ConfigError, did_you_mean
from drpl.registry import NOISES, find

if TYPE_CHECKING:
    from drpl.data.dataset import Dataset, DatasetSplits
    from drpl.noise.confusion import Confusion
    from drpl.noise.kind import Noise, NoiseContext


def parse(spec: str, around: "NoiseContext | None" = None) -> "Noise":
    """The noise that a text names: `uniform:0.6,scheme=official` or a sum `uniform:0.2+ood:0.2`."""
    from drpl.noise.kind import Noise, NoiseContext

    found = around or NoiseContext()
    return Noise(tuple(part for text in split(spec) for part in parse_one(text, found).parts))


def split(spec: str) -> list[str]:
    """The parts of a sum; a plus sign within a file's name is none."""
    return re.split(r"\+(?=[a-z-]+(?::|$))", spec)


def asked(spec: str) -> list[tuple[str, float | None]]:
    """The kinds of noise in a text and their rates; None where the value is a file or nothing."""
    parts: list[tuple[str, float | None]] = []
    for text in split(spec):
        kind, _, rest = text.partition(":")
        try:
            parts.append((kind, float(rest.partition(",")[0])))
        except ValueError:
            parts.append((kind, None))
    return parts


def parse_one(spec: str, around: "NoiseContext") -> "Noise":
    """The noise of one part."""
    name, colon, rest = spec.partition(":")
    make = find("noise", name, NOISES).load()
    value, *options = rest.split(",")
    if not colon or not value:
        raise ConfigError(f"noise {spec!r} lacks its value; write for example {name}:0.4")
    first, *more = inspect.signature(make).parameters.values()
    known = [parameter.name for parameter in more]
    arguments: dict[str, Any] = {"around": around} if "around" in known else {}
    known = [name for name in known if name != "around"]
    for option in options:
        key, equals, text = option.partition("=")
        if key not in known or not equals:
            raise ConfigError(
                f"noise {spec!r}: unknown option {option!r}; {did_you_mean(key, known)}"
            )
        arguments[key] = text
    try:
        given: float | str = float(value) if first.annotation is float else value
    except ValueError:
        raise ConfigError(f"noise {spec!r}: {value!r} is not a number between 0 and 1") from None
    return make(given, **arguments)  # type: ignore[no-any-return]


def inject(
    data: "DatasetSplits", spec: str, seed: int, confusion: "Confusion | None" = None
) -> "tuple[Dataset, dict[str, Any]]":
    """Corrupt the training part, and the manifest that says what was asked for and what came."""
    from drpl.noise.kind import NoiseContext
    from drpl.noise.manifest import manifest
    from drpl.randomness import rng

    noise = parse(spec, NoiseContext(data.outside, confusion))
    changes = noise.changes(data.train, rng(seed, "noise"))
    noisy = noise.applied(data.train, changes)
    return noisy, {"seed": seed, **manifest(split(spec), noise, changes, data, noisy)}


def corrupt(
    data: "DatasetSplits", noise: str | None, seed: int, confusion: Path | None = None
) -> "tuple[DatasetSplits, dict[str, Any]]":
    """The data with the asked noise, and a manifest of it."""
    from drpl.files import digest
    from drpl.noise import confusion as confusions

    if noise:
        lookalikes = confusions.read(confusion) if confusion else None
        noisy, manifest = inject(data, noise, seed, lookalikes)
        return replace(data, train=noisy), manifest
    truth = data.train.truth
    wrong = None if truth is None else float(truth.is_noisy(data.train.labels).double().mean())
    labels_digest = digest(data.train.labels.numpy().tobytes())
    return data, {"spec": None, "nominal": None, "realised": wrong, "labels_digest": labels_digest}
