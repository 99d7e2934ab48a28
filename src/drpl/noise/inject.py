"""The noise laboratory: corrupt labels on purpose, and say exactly what was done."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, Truth
from drpl.errors import ConfigError, did_you_mean
from drpl.files import digest
from drpl.noise.confusion import Confusion, read_confusion
from drpl.noise.kind import Change, Noise, NoiseContext
from drpl.noise.spec import split_spec
from drpl.noise.transition import transition_matrix
from drpl.randomness import rng
from drpl.registry import NOISES, find


def make_noise(spec: str, around: NoiseContext | None = None) -> Noise:
    """The noise that a text names, for example `uniform:0.2+ood:0.2`."""
    found = around or NoiseContext()
    return Noise(tuple(part for text in split_spec(spec) for part in _make_one(text, found).parts))


def _make_one(spec: str, around: NoiseContext) -> Noise:
    """The noise of one part of a sum."""
    name, colon, rest = spec.partition(":")
    if not name.strip():
        raise ConfigError("the noise is empty; write for example uniform:0.4, or leave it out")
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
    return noisy, {"seed": seed, **_make_manifest(split_spec(spec), noise, changes, data, noisy)}


def corrupt(
    data: DatasetSplits, noise: str | None, seed: int, confusion: Path | str | None = None
) -> tuple[DatasetSplits, dict[str, Any]]:
    """The data with noise, if any is asked for, and a manifest of it.

    `confusion` is the file of a confusion matrix, which some noises need.
    """
    if noise is not None:
        lookalikes = read_confusion(Path(confusion), data) if confusion else None
        noisy, manifest = inject(data, noise, seed, lookalikes)
        return replace(data, train=noisy), manifest
    truth = data.train.truth
    wrong = None if truth is None else float(truth.is_noisy(data.train.labels).double().mean())
    labels_digest = digest(data.train.labels.numpy().tobytes())
    return data, {"spec": None, "nominal": None, "realised": wrong, "labels_digest": labels_digest}


def _make_manifest(
    specs: Sequence[str],
    noise: Noise,
    changes: Sequence[Change],
    data: DatasetSplits,
    noisy: Dataset,
) -> dict[str, Any]:
    """The whole record but for the seed: totals, parts, classes, matrix and outside images."""
    truth = noisy.truth
    assert truth is not None  # noqa: S101  every noise records the truth
    wrong = truth.is_noisy(noisy.labels)
    own = truth.in_distribution
    matrix = transition_matrix(truth.labels[own], noisy.labels[own], len(noisy.classes))
    images = [change.images for change in changes if change.images is not None]
    return {
        "spec": "+".join(specs),
        "nominal": noise.nominal(data.train),
        "realised": float(wrong.double().mean()),
        "samples": len(noisy),
        "wrong": int(wrong.sum()),
        "parts": [
            {
                "spec": spec,
                "nominal": part.nominal(data.train),
                "realised": len(change.rows) / len(noisy),
                "wrong": len(change.rows),
            }
            for spec, part, change in zip(specs, noise.parts, changes, strict=True)
        ],
        "labels_digest": digest(*(x.numpy().tobytes() for x in (noisy.labels, *images))),
        "classes": list(noisy.classes),
        "per_class": _summarize_classes(data.train, noise, wrong, truth),
        "matrix": [[round(value, 6) for value in row] for row in matrix.tolist()],
        "outside": _summarize_outside(data.outside, truth),
    }


def _summarize_classes(
    clean: Dataset, noise: Noise, wrong: Tensor, truth: Truth
) -> list[dict[str, Any]]:
    """For each class before the noise: its size, and the rates asked for and found."""
    rates = torch.stack([part.rates(clean) for part in noise.parts]).sum(0)
    samples, changed, outside = (
        torch.bincount(clean.labels[mask], minlength=len(rates)).tolist()
        for mask in (torch.ones_like(wrong), wrong, ~truth.in_distribution)
    )
    return [
        {
            "class": name,
            "samples": samples[c],
            "nominal": round(float(rates[c]), 12),
            "realised": changed[c] / max(samples[c], 1),
            "outside": outside[c],
        }
        for c, name in enumerate(clean.classes)
    ]


def _summarize_outside(source: Dataset | None, truth: Truth) -> dict[str, Any] | None:
    """How many images came from outside, and from which classes; None where none did."""
    if source is None or truth.source is None:
        return None
    counts = torch.bincount(truth.source[truth.source >= 0], minlength=len(source.classes))
    found = zip(source.classes, counts.tolist(), strict=True)
    return {
        "images": int(counts.sum()),
        "classes": list(source.classes),
        "sources": {name: count for name, count in found if count},
    }
