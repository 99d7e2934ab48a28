"""Images worth looking at: which ones, from what a run found, and where their pixels are.

Run folders do not keep the images. What the galleries need is put in `gallery.npz` when a run
ends, so that a folder can be looked at anywhere.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from drpl.files import explain_read_errors, write_atomic
from drpl.report.runs import arrays, samples, split
from drpl.runs.folder import Result

MOST = 300  # images in all
ROW = 12  # images of a gallery that is not by class
PER_CLASS = 5  # detected noisy images of a class, beside a clean one
SIDE = 64  # pixels of the longer side

Table = Mapping[str, NDArray[Any]]  # as in samples.npz


@dataclass(frozen=True)
class Choice:
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


def choose(table: Table, judged: Sequence[NDArray[Any]], classes: int) -> Choice:
    """Pick the images; `judged` are the probabilities of noise by each split of the run.

    * by class: flagged, most probably noisy first; beside them the clean one with the lowest loss
    * memorised: flagged, and yet the model predicts the given label; surest first
    * disputed: splits disagree most on the probability of noise, or it is nearest to one half
    * opposed: the model predicts another class than the label; surest first
    """
    given, flagged = table["given"], table["flagged"].astype(bool)
    sure, noise, loss = table["confidence"], table["p_noisy"], table["loss"]
    agrees = table["suggested"] == given
    if len(judged) > 1:
        stacked = np.stack(judged)
        dispute = stacked.max(0) - stacked.min(0)
    else:
        dispute = -np.abs(noise - 0.5)
    room = (MOST - 3 * ROW) // (PER_CLASS + 1)
    counts = np.bincount(given[flagged], minlength=classes)
    busiest = np.argsort(-counts, kind="stable")[:room]
    by_class = []
    for c in sorted(busiest[counts[busiest] > 0].tolist()):
        mine = given == c
        clean = ranked(mine & ~flagged & agrees, -loss)[:1]
        noisy = ranked(mine & flagged, noise, loss)[:PER_CLASS]
        by_class.append((c, clean[0] if clean else None, noisy))
    return Choice(
        by_class,
        ranked(flagged & agrees, sure)[:ROW],
        ranked(np.ones(len(given), bool), dispute)[:ROW],
        ranked(~agrees, sure)[:ROW],
    )


def ranked(among: NDArray[Any], *values: NDArray[Any]) -> list[int]:
    """The samples of a mask, highest value first; later values decide ties, then the order."""
    index = np.flatnonzero(among)
    keys = [-value[index].astype(float) for value in reversed(values)]
    return [int(i) for i in index[np.lexsort([index, *keys])]]


def choice_of(run: Result) -> Choice | None:
    """The images that the galleries of a run show; None before it is finished."""
    table = samples(run)
    if table is None:
        return None
    judged = [split(run, stage["stage"])["noisy"] for stage in run.summary["stages"]]
    return choose(table, judged, len(run.summary["classes"]))


def write(path: Path, ids: Sequence[int], pixels: NDArray[np.uint8]) -> None:
    """Keep images [K, C, H, W] as thumbnails; equal images give equal bytes."""
    small = np.stack([thumbnail(image) for image in pixels])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, ids=np.asarray(ids, np.int64), pixels=small)
    write_atomic(path, buffer.getvalue())


def thumbnail(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[C, H, W] of any number of channels to [h, w, 3] or [h, w, 1] of at most SIDE pixels."""
    shown = image[:3] if len(image) >= 3 else image[:1]
    picture = Image.fromarray(
        shown.transpose(1, 2, 0).squeeze(2) if len(shown) == 1 else shown.transpose(1, 2, 0)
    )
    picture.thumbnail((SIDE, SIDE))
    return np.asarray(picture).reshape(picture.height, picture.width, len(shown))


class Pixels:
    """Where the images of a run are: its `gallery.npz`, or the files that it was trained on."""

    def __init__(self, run: Result, root: Path | None = None) -> None:
        self.run, self.root = run, root
        kept = arrays(run, "gallery.npz") or {"ids": np.empty(0, np.int64), "pixels": np.empty(0)}
        self.kept = dict(zip(kept["ids"].tolist(), kept["pixels"], strict=True))

    @property
    def why_not(self) -> str:
        """A sentence, if there is no image to be had."""
        if self.kept or self.root:
            return ""
        return (
            "The images cannot be shown: the folder of this run has no gallery.npz (it was made "
            "by an older version, or its samples are no images). If they are files, name the "
            "folder that their paths start in: drpl report RUN --images FOLDER"
        )

    def address(self, number: int) -> str | None:
        """An image as an address that holds it; None if it is not to be had."""
        if self.root:
            return self.from_file(str(self.run.samples["path"].iloc[number]))
        if number not in self.kept:
            return None
        pixels = self.kept[number]
        return embedded(Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels))

    def from_file(self, name: str) -> str | None:
        """A file below the root, made small."""
        from drpl.data.decoding import upright

        path = Path(self.root or "") / name
        if not name or not path.is_file():
            return None
        with explain_read_errors(path), Image.open(path) as file:
            file.draft(None, (2 * SIDE, 2 * SIDE))
            image = upright(file)
            image.thumbnail((SIDE, SIDE))
            return embedded(image)


def embedded(image: Image.Image) -> str:
    """As PNG where every pixel counts, else as JPEG."""
    buffer = io.BytesIO()
    image.info = {}
    small = max(image.size) <= SIDE // 2
    image.save(buffer, "PNG" if small else "JPEG", **({} if small else {"quality": 85}))
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
