"""Near-duplicates: pictures that are copies of each other, mirrored, saved again, scaled, cropped.

Pairs are searched among all by one product: of what a pretrained network makes of two images and of
their thumbnails, plain and mirrored. The few that are near are then laid over each other, pixel on
pixel. Both thresholds are found on the data themselves: copies of some of the images are made, and
the thresholds are such that nearly all are found, unless too many pairs of different images of one
class would pass as well.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from drpl.analysis.alignment import SIDE, correlate_aligned, standardise
from drpl.analysis.copies import KINDS, make_copies
from drpl.analysis.encoded import PART, EncodedImages, to_grey
from drpl.detection.neighbours import find_pairs
from drpl.randomness import rng

WEIGHT = 0.3  # of the features; the rest is that of thumbnails
THUMBNAIL = 8  # pixels a side
NEAREST = 5  # candidates for each image and view
COPIED, DRAWN = 200, 1000  # images that are copied, and pairs of different images
LOST = 0.01  # share of each kind of copy that either threshold may lose
FALSE = 0.01  # share of the pairs of different images of one class that may pass
EQUAL = 0.9999  # correlation of one picture with itself: there twice, and no other picture
LOWEST = 0.9  # correlation below which pixels are not those of a copy
FIXED = 0.85  # cosine of near-duplicates where there are vectors only


@dataclass(frozen=True)
class Calibration:
    """What the thresholds are, and what they find of copies and of other pairs."""

    near: float  # of the product that is searched by
    pixels: float  # of the correlation when laid over each other
    recall: dict[str, float]  # share of the copies of each kind that are found
    false: float  # share of pairs of different images of one class that pass


@dataclass(frozen=True)
class Duplicates:
    """Pairs of images, and how alike the two are."""

    pairs: Tensor  # [P, 2]
    similarity: Tensor  # [P] correlation of pixels, or cosine where there are no pictures
    calibration: Calibration | None  # None where there are no pictures


def find_duplicates(images: EncodedImages, copied: int = COPIED) -> Duplicates:
    """All pairs of near-duplicates, the most similar first; `copied` images set the thresholds."""
    if images.pictures is None:
        pairs, cosines = find_pairs(images.vectors, FIXED, NEAREST)
        return Duplicates(pairs, cosines, None)
    plain, mirrored = describe_all(images)
    calibration = _calibrate(images, plain, mirrored, copied)
    found = [
        find_pairs(plain, calibration.near, NEAREST)[0],
        find_pairs(plain, calibration.near, NEAREST, others=mirrored)[0],
    ]
    pairs = torch.cat(found).unique(dim=0)
    similarity = _compare_pixels(images, pairs)
    order = similarity.argsort(descending=True, stable=True)
    order = order[similarity[order] >= calibration.pixels]
    return Duplicates(pairs[order], similarity[order], calibration)


def describe_all(images: EncodedImages) -> tuple[Tensor, Tensor]:
    """What images are searched by, and the same of their mirror images. float16 [N, D]"""
    every = torch.arange(len(images))
    thumbnails = [_shrink(squares) for _, squares in images.load_squares(every, SIDE)]
    small = torch.cat(thumbnails)
    # Vectors whose encoder is not here cannot be made of copies, and so not be calibrated.
    vectors = images.vectors if images.encoder else images.vectors[:, :0]
    return _describe(vectors, small), _describe(vectors, small.flip(3))


def _shrink(squares: Tensor) -> Tensor:
    """Thumbnails of squares. uint8 [B, 3, 8, 8]"""
    return adaptive_avg_pool2d(squares.float(), THUMBNAIL).round().to(torch.uint8)


def _describe(vectors: Tensor, thumbnails: Tensor) -> Tensor:
    """Features and thumbnails in one vector of unit length. float16 [B, D]"""
    weight = WEIGHT if vectors.shape[1] else 0.0
    parts = [vectors * weight**0.5, standardise(thumbnails).half() * (1 - weight) ** 0.5]
    return torch.cat(parts, 1)


def _compare_pixels(images: EncodedImages, pairs: Tensor) -> Tensor:
    """The correlation of both pictures of each pair, laid over each other. [P]"""
    ids, rows = pairs.unique(return_inverse=True)
    grey = [to_grey(squares) for _, squares in images.load_squares(ids, SIDE)]
    pictures = torch.cat([torch.empty(0, SIDE, SIDE, dtype=torch.uint8), *grey])
    parts = [correlate_aligned(*pictures[part.T]) for part in rows.split(PART)]
    return torch.cat([torch.empty(0), *parts])


def _calibrate(images: EncodedImages, plain: Tensor, mirrored: Tensor, copied: int) -> Calibration:
    """Thresholds that find nearly all copies of some images, and few pairs of other images."""
    chosen = torch.randperm(len(images), generator=rng("copied"))[:copied].sort().values
    grey = torch.cat([to_grey(squares) for _, squares in images.load_squares(chosen, SIDE)])
    near, aligned = {}, {}
    for kind in KINDS:
        copies, squares = describe_copies(images, chosen, kind)
        near[kind] = _find_nearer(copies, plain[chosen], mirrored[chosen])
        aligned[kind] = correlate_aligned(grey, to_grey(squares))
    threshold = min(_find_lowest(values) for values in near.values())
    pixels = max(LOWEST, min(_find_lowest(values) for values in aligned.values()))
    different = _draw_pairs(images.labels)
    i, j = different.T
    passing = different[_find_nearer(plain[i], plain[j], mirrored[j]) >= threshold]
    passing = passing[~_are_nearest(passing, plain, mirrored)]
    correlations = _compare_pixels(images, passing).sort(descending=True).values
    correlations = correlations[correlations < EQUAL]
    allowed = int(FALSE * len(different))
    if len(correlations) > allowed:
        pixels = max(pixels, float(correlations[allowed]) + 1e-6)
    recall = {
        kind: float(((near[kind] >= threshold) & (aligned[kind] >= pixels)).double().mean())
        for kind in KINDS
    }
    false = float((correlations >= pixels).sum()) / max(1, len(different))
    return Calibration(threshold, pixels, recall, false)


def describe_copies(images: EncodedImages, chosen: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Copies of images as they would be searched for, and as squares."""
    assert images.pictures is not None  # noqa: S101  the caller asked
    encoder = images.encoder
    sides = (SIDE, encoder.size) if encoder else (SIDE,)
    squares, *seen = make_copies(images.pictures, chosen, kind, sides)
    none = torch.empty(len(chosen), 0).half()
    vectors = images.encode(encoder, seen[0]) if encoder else none
    return _describe(vectors, _shrink(squares)), squares


def _find_lowest(values: Tensor) -> float:
    """What all values reach but the few that may be lost."""
    return float(values.sort().values[int(LOST * len(values))]) - 1e-4


def _draw_pairs(labels: Tensor) -> Tensor:
    """Pairs of different images of one class, drawn at random. [P, 2]"""
    draws = rng("different")
    first = torch.randint(len(labels), (DRAWN,), generator=draws)
    order, counts = labels.argsort(stable=True), labels.bincount()
    starts = counts.cumsum(0) - counts
    place = (torch.rand(DRAWN, generator=draws) * counts[labels[first]]).long()
    second = order[starts[labels[first]] + place]
    return torch.stack([first, second], 1)[first != second]


def _are_nearest(pairs: Tensor, plain: Tensor, mirrored: Tensor) -> Tensor:
    """Which pairs were drawn although one is among the nearest of the other. [P] bool

    Where the data have many copies these are copies, and not the different images that are wanted.
    """
    found = [torch.empty(0, dtype=torch.bool)]
    for part in pairs.split(64):
        rows, columns = torch.cat([part, part.flip(1)]).T
        near = torch.maximum(*(plain[rows].float() @ view.float().T for view in (plain, mirrored)))
        near[torch.arange(len(rows)), rows] = -torch.inf
        own = near.gather(1, columns[:, None])
        found.append(((near > own).sum(1) < NEAREST).view(2, -1).any(0))
    return torch.cat(found)


def _find_nearer(vectors: Tensor, plain: Tensor, mirrored: Tensor) -> Tensor:
    """The larger product of each row with two views of another image. [P]"""
    views = [(vectors.float() * view.float()).sum(1) for view in (plain, mirrored)]
    return torch.maximum(*views)
