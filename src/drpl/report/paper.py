"""The figures that the paper prints, as data. They are its authors' single runs.

Most are cells of its tables; those that stand in its text only say so in their note.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from drpl.noise.spec import parse_spec

TABLES = {
    "detection": "ImageNet32: how many clean and noisy labels TS, NL and DRPL keep",
    "imagenet32": "ImageNet32, 100 classes: accuracy under four noises at 14 rates",
    "imagenet64": "ImageNet64, 100 classes: the same",
    "cifar10": "CIFAR-10: accuracy of nine methods under two noises at seven rates",
    "cifar100": "CIFAR-100: the same",
    "webvision": "WebVision, first 50 classes: accuracy of ten methods under real noise",
    "webvision-google": "WebVision, Google's images, Inception-ResNet-v2: from the text",
    "oracles": "ImageNet32/64: two methods that know the truth",
}
VALUES = ("best", "last", "tpr", "fpr", "flagged")


@dataclass(frozen=True)
class PaperFigure:
    """What the paper prints for one cell: accuracies in percent, or shares of kept labels."""

    table: str
    dataset: str
    noise: str  # as `--noise` takes it, or "none"
    rate: float
    method: str
    best: float | None
    last: float | None
    tpr: float | None
    fpr: float | None
    flagged: float | None  # share of the samples that are detected as noisy
    note: str  # what is doubtful about it


@cache
def read_published() -> tuple[PaperFigure, ...]:
    """Every cell of every table."""
    text = files("drpl.report").joinpath("published.csv").read_text("utf-8")
    figures = []
    for row in csv.DictReader(text.splitlines()):
        cells: dict[str, Any] = {**row, "rate": float(row["rate"])}
        cells |= {key: float(row[key]) if row[key] else None for key in VALUES}
        figures.append(PaperFigure(**cells))
    return tuple(figures)


def find_published(dataset: str, noise: str | None, method: str) -> list[PaperFigure]:
    """What the paper prints for a data set, a noise and a method: nothing, or up to two cells."""
    return [
        figure
        for figure in read_published()
        if (figure.dataset, figure.method) == (dataset, method)
        and parse_spec(figure.noise) == parse_spec(noise or "none")
    ]
