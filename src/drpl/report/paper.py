"""The figures that the paper prints, as data. They are its authors' single runs."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from drpl.noise.spec import parse_spec

TABLES = {
    "detection": "ImageNet32: how many clean and noisy labels TS, NL and DRPL keep",
    "imagenet32": "ImageNet32, 100 classes: accuracy under four noises at 14 rates",
    "imagenet64": "ImageNet64, 100 classes: the same",
    "cifar10": "CIFAR-10: accuracy of nine methods under two noises at seven rates",
    "cifar100": "CIFAR-100: the same",
    "webvision": "WebVision, first 50 classes: accuracy of ten methods under real noise",
    "oracles": "ImageNet32/64: two methods that are told the truth",
}


@dataclass(frozen=True)
class Figure:
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
    note: str  # what is doubtful about it


@cache
def published() -> tuple[Figure, ...]:
    """Every cell of every table."""
    text = files("drpl.report").joinpath("published.csv").read_text("utf-8")

    def number(cell: str) -> float | None:
        return float(cell) if cell else None

    return tuple(
        Figure(
            row["table"],
            row["dataset"],
            row["noise"],
            float(row["rate"]),
            row["method"],
            best=number(row["best"]),
            last=number(row["last"]),
            tpr=number(row["tpr"]),
            fpr=number(row["fpr"]),
            note=row["note"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def printed(dataset: str, noise: str | None, method: str) -> list[Figure]:
    """What the paper prints for a data set, a noise and a method: nothing, or up to two cells."""
    return [
        figure
        for figure in published()
        if (figure.dataset, figure.method) == (dataset, method)
        and parse_spec(figure.noise) == parse_spec(noise or "none")
    ]
