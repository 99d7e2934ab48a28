"""What was asked of a noise, and what came out."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, Truth
from drpl.files import digest
from drpl.noise.kind import Change, Noise
from drpl.noise.transition import transition_matrix


def make_manifest(
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
