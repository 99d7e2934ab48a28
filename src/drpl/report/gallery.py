"""The galleries of a page: the images of a run that are worth looking at."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from drpl.data.address import is_there
from drpl.data.decoding import load_thumbnail
from drpl.files import explain_read_errors
from drpl.report.load import read_arrays, read_samples, read_split
from drpl.report.numbers import Number, Numbers, tag_name
from drpl.runs.folder import Result
from drpl.runs.gallery import SIDE, Selection, select_images, to_image

Rows = list[tuple[str, list["Tile"]]]  # a name, and images


@dataclass(frozen=True)
class Tile:
    """An image of a gallery and what is to be said about it."""

    image: str | None  # as a data URL
    what: Markup
    number: Number
    clean: bool = False


def select_for_run(run: Result) -> Selection | None:
    """The images that the galleries of a run show; None before it is finished."""
    samples = read_samples(run)
    if samples is None:
        return None
    p_noisy = [read_split(run, stage["stage"])["noisy"] for stage in run.summary["stages"]]
    return select_images(samples, p_noisy, len(run.summary["classes"]))


def build_galleries(numbers: Numbers, run: Result, root: Path | None) -> dict[str, Rows] | None:
    """The galleries by kind: empty where there are no images, None before the run is finished.

    Images come from the run's `gallery.npz`, or from the files below `root` that it was trained on.
    """
    chosen, samples = select_for_run(run), read_samples(run)
    if chosen is None or samples is None:
        return None
    kept = read_arrays(run, "gallery.npz") or {"ids": np.empty(0), "pixels": np.empty(0)}
    images = dict(zip(kept["ids"].tolist(), kept["pixels"], strict=True))
    if not images and not root:
        return {}
    names = run.summary["classes"]

    def make_tile(key: str, number: int, *, clean: bool = False) -> Tile:
        given, seen = (tag_name(names[samples[k][number]]) for k in ("given", "suggested"))
        what = given if given == seen else Markup("{} ← {}").format(given, seen)
        value = numbers.compute(run, f"{key}[{number}]", samples[key][number], 2)
        image = _load_file(run, number, root) if root else _embed_pixels(images.get(number))
        return Tile(image, what, value, clean)

    def make_row(ids: Sequence[int], key: str) -> Rows:
        return [("", [make_tile(key, number) for number in ids])] if ids else []

    by_class = []
    for c, clean, noisy in chosen.classes:
        first = [] if clean is None else [make_tile("p_noisy", clean, clean=True)]
        by_class.append((names[c], [*first, *map(partial(make_tile, "p_noisy"), noisy)]))
    return {
        "classes": by_class,
        "memorised": make_row(chosen.memorised, "confidence"),
        "disputed": make_row(chosen.disputed, "p_noisy"),
        "opposed": make_row(chosen.opposed, "confidence"),
    }


def _embed_pixels(pixels: NDArray[Any] | None) -> str | None:
    return None if pixels is None else embed(to_image(pixels))


def _load_file(run: Result, number: int, root: Path) -> str | None:
    """The image file of a sample as a thumbnail; None if it is not there."""
    name = str(run.samples["path"].iloc[number])
    path = root / name
    if not name or not is_there(path):
        return None
    with explain_read_errors(path):
        return embed(load_thumbnail(path, SIDE))


def embed(image: Image.Image) -> str:
    """A data URL: PNG where every pixel counts, else JPEG."""
    kind = "png" if max(image.size) <= SIDE // 2 else "jpeg"
    buffer = io.BytesIO()
    image.info = {}
    image.save(buffer, kind, quality=85)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
