"""`gallery.npz`: small copies of the images of a run that are worth looking at.

Run folders do not keep the images themselves. With these a folder can be reported on anywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from drpl.files import write_arrays

CLASSES = 50  # in the gallery by class, as many as the paper's part of WebVision has
ROW = 12  # images of a gallery that is not by class
PER_CLASS = 5  # detected noisy images of a class, beside a clean one
MOST = CLASSES * (PER_CLASS + 1) + 3 * ROW  # images in all
SIDE = 64  # pixels of the longer side

Table = Mapping[str, NDArray[Any]]  # as in samples.npz


@dataclass(frozen=True)
class Selection:
    """The ids of the images that the galleries show."""

    classes: list[tuple[int, int | None, list[int]]]  # class, a clean image, noisy ones
    memorised: list[int]
    disputed: list[int]
    opposed: list[int]

    @property
    def ids(self) -> list[int]:
        """Every image once, in order."""
        found = {*self.memorised, *self.disputed, *self.opposed}
        for _, clean, noisy in self.classes:
            found |= {*noisy, *([] if clean is None else [clean])}
        return sorted(found)


def select_images(table: Table, p_noisy: Sequence[NDArray[Any]], classes: int) -> Selection:
    """Pick the images; `p_noisy` has the probabilities of noise by each split of the run.

    * by class: flagged, most probably noisy first; beside them the clean one with the lowest loss
    * memorised: flagged, and yet the model predicts the given label; highest confidence first
    * disputed: splits disagree most on the probability of noise, or it is nearest to one half
    * opposed: the model predicts another class than the label; highest confidence first
    """
    given, flagged = table["given"], table["flagged"].astype(bool)
    confidence, noise, loss = table["confidence"], table["p_noisy"], table["loss"]
    agrees = table["suggested"] == given
    dispute = np.ptp(p_noisy, axis=0) if len(p_noisy) > 1 else -np.abs(noise - 0.5)
    counts = np.bincount(given[flagged], minlength=classes)
    busiest = np.argsort(-counts, kind="stable")[:CLASSES]
    by_class = []
    for c in sorted(busiest[counts[busiest] > 0].tolist()):
        mine = given == c
        clean = _rank(mine & ~flagged & agrees, -loss)[:1]
        noisy = _rank(mine & flagged, noise, loss)[:PER_CLASS]
        by_class.append((c, clean[0] if clean else None, noisy))
    return Selection(
        by_class,
        _rank(flagged & agrees, confidence)[:ROW],
        _rank(np.ones(len(given), bool), dispute)[:ROW],
        _rank(~agrees, confidence)[:ROW],
    )


def _rank(among: NDArray[Any], *values: NDArray[Any]) -> list[int]:
    """The samples of a mask, highest value first; later values decide ties, then the order."""
    index = np.flatnonzero(among)
    keys = [-value[index].astype(float) for value in reversed(values)]
    return [int(i) for i in index[np.lexsort([index, *keys])]]


def write_gallery(path: Path, ids: Sequence[int], pixels: NDArray[np.uint8]) -> None:
    """Keep images [K, C, H, W] as thumbnails; equal images give equal bytes."""
    small = np.stack([_shrink(image) for image in pixels])
    write_arrays(path, {"ids": np.asarray(ids, np.int64), "pixels": small}, compress=True)


def to_image(pixels: NDArray[np.uint8]) -> Image.Image:
    """[H, W, 1 or 3] as Pillow has it."""
    return Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)


def _shrink(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[C, H, W] of any number of channels to [h, w, 3] or [h, w, 1] of at most SIDE pixels."""
    channels = 3 if len(image) >= 3 else 1
    small = to_image(image[:channels].transpose(1, 2, 0))
    small.thumbnail((SIDE, SIDE))
    return np.asarray(small).reshape(small.height, small.width, channels)
