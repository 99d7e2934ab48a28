"""The noise laboratory: corrupt labels on purpose, and say exactly what was done."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.errors import ConfigError, did_you_mean
from drpl.files import digest
from drpl.noise.confusion import Confusion, read_confusion
from drpl.noise.kind import Noise, NoiseContext
from drpl.noise.manifest import make_manifest
from drpl.noise.spec import split_spec
from drpl.randomness import rng
from drpl.registry import NOISES, find


def make_noise(spec: str, around: NoiseContext | None = None) -> Noise:
    """The noise that a text names, for example `uniform:0.2+ood:0.2`."""
    found = around or NoiseContext()
    return Noise(tuple(part for text in split_spec(spec) for part in _make_one(text, found).parts))


def _make_one(spec: str, around: NoiseContext) -> Noise:
    """The noise of one part of a sum."""
    name, colon, rest = spec.partition(":")
    make = find("noise", name, NOISES).load()
    value, *options = rest.split(",")
    if not colon or not value:
        raise ConfigError(f"noise {spec!r} lacks its value; write for example {name}:0.4")
    first, *more = inspect.signature(make).parameters.values()
    known = {parameter.name for parameter in more}
    arguments: dict[str, Any] = {"around": around} if "around" in known else {}
    known -= {"around"}
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
    data: DatasetSplits, spec: str, seed: int, confusion: Confusion | None = None
) -> tuple[Dataset, dict[str, Any]]:
    """Corrupt the training part, and the manifest that says what was asked for and what came."""
    noise = make_noise(spec, NoiseContext(data.outside, confusion))
    changes = noise.draw(data.train, rng(seed, "noise"))
    noisy = noise.apply(data.train, changes)
    return noisy, {"seed": seed, **make_manifest(split_spec(spec), noise, changes, data, noisy)}


def corrupt(
    data: DatasetSplits, noise: str | None, seed: int, confusion: Path | str | None = None
) -> tuple[DatasetSplits, dict[str, Any]]:
    """The data with noise, if any is asked for, and a manifest of it.

    `confusion` is the file of a confusion matrix, which some noises need.
    """
    if noise:
        lookalikes = read_confusion(Path(confusion)) if confusion else None
        noisy, manifest = inject(data, noise, seed, lookalikes)
        return replace(data, train=noisy), manifest
    truth = data.train.truth
    wrong = None if truth is None else float(truth.is_noisy(data.train.labels).double().mean())
    labels_digest = digest(data.train.labels.numpy().tobytes())
    return data, {"spec": None, "nominal": None, "realised": wrong, "labels_digest": labels_digest}
