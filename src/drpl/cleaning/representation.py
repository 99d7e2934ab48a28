"""Pixels or features: which representation suits the data is measured, not guessed.

A sample's nearest neighbours, itself left out, vote on its label. How often they agree with the
given one is measured on the pixels and on what a pretrained network makes of them. Wrong labels
lower both shares alike, so the representation with the higher one knows more of the classes.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, check_every_class
from drpl.data.images import attempt, redecode
from drpl.data.pixel_store import CACHE
from drpl.data.sources import ReadOptions, load
from drpl.detection.neighbours import vote_by_neighbours
from drpl.encoders.encode import count_missing, encode_splits
from drpl.encoders.encoder import load_encoder
from drpl.encoders.lite import has_weights
from drpl.encoders.measure import time_image
from drpl.errors import ConfigError
from drpl.randomness import rng
from drpl.runs.experiment import AnyData, as_splits

AUTO, NONE = "auto", "none"  # besides the names of encoders
ENCODER = "lite0"  # what `auto` tries
BETTER = (  # what more time buys, best first: encoder, mirror images too, cost in times ENCODER
    ("lite0+lite2", True, 8),
    ("lite0+lite2", False, 4),
    (ENCODER, True, 2),
)
SHARE = 0.6  # of the time, for features: they are worth more than seeds
SHOWN = 1000  # images that are tried
SIDE = 16  # pixels: more only tell one photo from another
NEIGHBOURS = 10
SMALLEST = 64  # pixels a side that an encoder can make something of


@dataclass(frozen=True)
class Representation:
    """The data as they are to be trained on, and why so."""

    data: DatasetSplits
    features: str | None  # the encoder's name
    notes: tuple[str, ...] = ()


def represent(
    what: AnyData, features: str, options: ReadOptions, seconds: float = 0
) -> Representation:
    """Read the data as pixels or as features, as asked for or, with `auto`, as suits them.

    A SHARE of `seconds` may be spent on features: of a second encoder too, and of mirror images.
    Where these are stored they are used in any case.
    """
    asked = replace(options, features=None if features in (AUTO, NONE) else features)
    if features == NONE or (
        not isinstance(what, str) and len(as_splits(what).train.images.shape) == 1
    ):
        return Representation(_load(what, asked), None)
    if features != AUTO:
        return Representation(_encode(what, asked), features)
    size = options.size if (options.size or 0) >= SMALLEST else None  # else it is for pixels only
    asked = replace(options, features=ENCODER, size=size)
    lazy = _load(what, replace(options, lazy=True))
    if len(lazy.train.images.shape) == 1:
        return Representation(lazy, None)
    try:
        trial = _try(lazy, asked)
    except ConfigError as error:
        note = f"trained on pixels, for features of a pretrained network cannot be had: {error}"
        return Representation(_load(what, options), None, (note,))
    shares = {"features": _agree(trial.train.images.load(_every(trial.train)), trial.train.labels)}
    shares["pixels"] = _agree(_read_pixels(trial.train), trial.train.labels)
    told = (
        f"neighbours agree with {shares['features']:.1%} of the labels by the features of "
        f"{ENCODER}, with {shares['pixels']:.1%} by the pixels"
    )
    if shares["features"] <= shares["pixels"]:
        return Representation(_load(what, options), None, (f"{told}: trained on pixels",))
    encoder, mirrored = choose_encoder(SHARE * seconds / _forecast(lazy, asked))
    if encoder == ENCODER and not mirrored:  # perhaps an earlier call had the time
        mirrored = not count_missing(lazy, replace(asked, mirrored=True))
    asked = replace(asked, features=encoder, mirrored=mirrored or asked.mirrored)
    data = encode_splits(lazy, asked)
    check_every_class(data.train.labels, data.train.classes, lazy.train.labels)
    views = " and of mirror images" if asked.mirrored else ""
    note = f"{told}: trained on features of {encoder}{views}"
    return Representation(data, encoder, (note,))


def choose_encoder(times: float) -> tuple[str, bool]:
    """The best encoder that takes at most `times` as long as the first, and whether mirrored."""
    for encoder, mirrored, cost in BETTER:
        if cost <= times and all(map(has_weights, encoder.split("+"))):
            return encoder, mirrored
    return ENCODER, False


def _forecast(data: DatasetSplits, options: ReadOptions) -> float:
    """Seconds that the first encoder takes for all images."""
    cache = (options.cache or CACHE) / "features"
    encoder = load_encoder(ENCODER, size=options.size, cache=cache)
    count = sum(len(part) for part in (data.train, data.test, data.outside) if part)
    return count * time_image(encoder, data.train.images)


def _load(data: AnyData, options: ReadOptions) -> DatasetSplits:
    return load(data, options) if isinstance(data, str) else as_splits(data)


def _encode(data: AnyData, options: ReadOptions) -> DatasetSplits:
    return load(data, options) if isinstance(data, str) else encode_splits(as_splits(data), options)


def _try(data: DatasetSplits, options: ReadOptions) -> DatasetSplits:
    """Some of the images with their features."""
    count = len(data.train)
    index = torch.randperm(count, generator=rng("representation"))[:SHOWN].sort().values
    few = replace(data, train=data.train.select(index), test=None, outside=None)
    return encode_splits(few, replace(options, skip_broken=True, progress=None))


def _read_pixels(train: Dataset) -> Tensor:
    """The images of a part, small. [N, 3 * 16 * 16]"""
    assert train.pictures is not None  # noqa: S101  they were encoded
    pixels, _ = attempt(redecode(train.pictures, SIDE), _every(train))
    return pixels.flatten(1).float()


def _agree(vectors: Tensor, labels: Tensor) -> float:
    """The share of samples whose neighbours vote for their label."""
    scaled = (vectors - vectors.mean(0)) / vectors.std(0).clamp(min=1e-3)
    classes = int(labels.max()) + 1
    votes = vote_by_neighbours(scaled, labels, classes, NEIGHBOURS)
    return float((votes.argmax(1) == labels).double().mean())


def _every(train: Dataset) -> Tensor:
    return torch.arange(len(train))
