"""Labels judged by predicted probabilities alone, from arrays that may be larger than memory.

The probabilities are those of a classifier for samples that it was not trained on, as cross-
validation gives them. They are read twice in parts, for the confusions of the noise model and for
its posterior; temperature and rate are found by some of the samples. What is kept is a few numbers
of each sample, never a table of samples and classes.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpl.detection.noise_model import (
    ENOUGH,
    NoiseModel,
    count_confusions,
    measure_lead,
    spread_evenly,
)
from drpl.errors import DataError
from drpl.randomness import rng

CELLS = 2**20  # probabilities that are read together
LEAST = 1e-6  # probability that logarithms are taken of
ROUNDING = 0.01  # by which the sum of a row may miss 1; half precision is no better

Array = NDArray[Any]


@dataclass(frozen=True)
class LabelQuality:
    """What probabilities say of each given label. All [N]"""

    label_noise: Array  # the probability that it is wrong, by the noise model
    self_confidence: Array  # its own probability
    normalized_margin: Array  # that less the best other one, from 0 to 1 (Northcutt et al., 2021)
    predicted: Array  # the most probable class
    other: Array  # the most probable class but the given one


def judge_probabilities(probs: Array, labels: Tensor) -> LabelQuality:
    """Judge labels [N] by probabilities [N, C], an array in memory or mapped from a file."""
    if probs.ndim != 2 or probs.shape[1] < 2 or probs.dtype.kind != "f":
        raise DataError(
            f"probabilities must be fractions [samples, classes], got {probs.dtype} {probs.shape}"
        )
    if len(probs) != len(labels) or not len(labels):
        raise DataError(f"{len(probs)} rows of probabilities for {len(labels)} labels")
    count, classes = probs.shape
    own, margin = (np.empty(count, probs.dtype) for _ in range(2))
    predicted, other = (np.empty(count, np.int64) for _ in range(2))
    lead, drawn = torch.empty(count, dtype=torch.float64), torch.zeros(count, dtype=torch.bool)
    drawn[torch.randperm(count, generator=rng("probabilities"))[:ENOUGH]] = True
    some = torch.empty(min(count, ENOUGH), classes, dtype=torch.float64)
    known = 0
    for rows in _split(probs):
        part, y = _read(probs, rows), labels[rows].numpy()
        scores = _take_log(part)
        lead[rows] = measure_lead(scores)
        few = scores[drawn[rows]]
        some[known : known + len(few)] = few
        known += len(few)
        predicted[rows] = part.argmax(1)
        at = np.arange(len(y))
        own[rows] = part[at, y]
        part[at, y] = -np.inf
        other[rows] = part.argmax(1)
        margin[rows] = (own[rows] - part[at, other[rows]] + 1) / 2
    prior = spread_evenly(classes)
    confusions = count_confusions(lead, torch.from_numpy(predicted), labels, prior)
    model = NoiseModel.fit_rate(some, labels[drawn], confusions)
    noise = np.empty(count)
    for rows in _split(probs):
        noise[rows] = model.of(_take_log(_read(probs, rows)), labels[rows]).posterior.numpy()
    return LabelQuality(noise, own, margin, predicted, other)


def _split(probs: Array) -> Iterator[slice]:
    """Rows that are read together."""
    step = max(1, CELLS // probs.shape[1])
    return (slice(start, start + step) for start in range(0, len(probs), step))


def _read(probs: Array, rows: slice) -> Array:
    """A copy of some rows, which are probabilities."""
    part = np.array(probs[rows])
    if isinstance(probs, np.memmap) and isinstance(probs.base, mmap) and probs.mode == "r":
        _forget(probs.base)
    wrong = ~(np.abs(part.sum(1, dtype=np.float64) - 1) <= ROUNDING) | (part < 0).any(1)
    if wrong.any():
        at = int(wrong.argmax())
        low, high, total = (float(of(part[at])) for of in (np.min, np.max, np.sum))
        raise DataError(
            f"row {rows.start + at} is not made of probabilities: it goes from {low:g} to "
            f"{high:g} and sums to {total:g}; of logits take the softmax"
        )
    return part


def _forget(file: mmap) -> None:
    """Hand back what was read of a file, or it would stay in the process's memory."""
    if sys.platform != "win32":
        from mmap import MADV_DONTNEED

        file.madvise(MADV_DONTNEED)


def _take_log(part: Array) -> Tensor:
    # Files may have the other order of bytes, or more precision than there are tensors of.
    return torch.from_numpy(part.astype(np.float64)).clamp(min=LEAST).log()
