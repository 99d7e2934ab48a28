"""The noise laboratory: corrupt labels on purpose, and say exactly what was done."""

import inspect
from typing import TYPE_CHECKING, Any

from drpl.catalogue import Entry, find
from drpl.errors import ConfigError, did_you_mean
from drpl.files import digest

if TYPE_CHECKING:
    from drpl.data.dataset import Dataset
    from drpl.noise.kind import Noise

NOISES = {
    "uniform": Entry(
        "drpl.noise.transition:uniform",
        "uniform:RATE, to any other class with equal chance; true label excluded",
    ),
    "matrix": Entry(
        "drpl.noise.transition:matrix",
        "matrix:FILE, by a transition matrix from a .csv, .npy or .npz file",
    ),
}


def parse(spec: str) -> "Noise":
    """The noise that a text such as `uniform:0.6` or `uniform:0.6,scheme=official` names."""
    name, colon, rest = spec.partition(":")
    make = find("noise", name, NOISES).load()
    value, *options = rest.split(",")
    if not colon or not value:
        raise ConfigError(f"noise {spec!r} lacks its value; write for example {name}:0.4")
    first, *more = inspect.signature(make).parameters.values()
    known = [parameter.name for parameter in more]
    arguments: dict[str, str] = {}
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


def inject(clean: "Dataset", spec: str, seed: int) -> "tuple[Dataset, dict[str, Any]]":
    """Corrupt a data set, and the manifest that says what was asked for and what came out."""
    from drpl.noise.transition import realised_matrix
    from drpl.randomness import rng

    noise = parse(spec)
    noisy = noise(clean, rng(seed, "noise"))
    assert noisy.truth is not None  # noqa: S101  every noise records the truth
    wrong = noisy.truth.is_noisy(noisy.labels)
    matrix = realised_matrix(noisy.truth.labels, noisy.labels, len(noisy.classes))
    manifest = {
        "spec": spec,
        "nominal": noise.nominal(clean),
        "realised": float(wrong.double().mean()),
        "samples": len(noisy),
        "wrong": int(wrong.sum()),
        "seed": seed,
        "labels_digest": digest(noisy.labels.numpy().tobytes()),
        "classes": list(noisy.classes),
        "matrix": [[round(value, 6) for value in row] for row in matrix.tolist()],
    }
    return noisy, manifest
