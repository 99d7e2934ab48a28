"""What features tell of a data set without training: duplicates, leaks, outliers, alike classes."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from drpl.analysis.duplicates import COPIED, Duplicates, find_duplicates
from drpl.analysis.encoded import EncodedImages
from drpl.analysis.outliers import Neighbourhood, look_around
from drpl.data.dataset import DatasetSplits
from drpl.errors import DataError
from drpl.files import format_table, write_atomic

DUPLICATES, OUTLIERS = "duplicates.csv", "outliers.csv"
SOME = 5  # examples named for each finding


@dataclass(frozen=True)
class Findings:
    """What was found; `write` puts the lists into a folder."""

    images: EncodedImages
    duplicates: Duplicates
    around: Neighbourhood

    @cached_property
    def conflicts(self) -> Tensor:
        """Which pairs of near-duplicates have different labels. [P] bool"""
        labels = self.images.labels[self.duplicates.pairs]
        return labels[:, 0] != labels[:, 1]

    @cached_property
    def leaks(self) -> Tensor:
        """Which pairs have one image in each part. [P] bool"""
        test = self.images.is_test[self.duplicates.pairs]
        return test[:, 0] != test[:, 1]

    @property
    def ranked(self) -> Tensor:
        """The pairs by number: conflicts first, then leaks, then others; most similar first. [P]"""
        return (-2 * self.conflicts.int() - self.leaks.int()).argsort(stable=True)

    @cached_property
    def leaked(self) -> int:
        """How many test images have a near-duplicate among the training images."""
        return len(self.duplicates.pairs[self.leaks][:, 1].unique())

    def write(self, folder: Path) -> None:
        """Write `duplicates.csv` and `outliers.csv`."""
        _write_table(folder / DUPLICATES, self.tabulate_duplicates())
        _write_table(folder / OUTLIERS, self.tabulate_outliers())

    def tabulate_duplicates(self) -> pd.DataFrame:
        """A row for each pair: conflicts first, then leaks, then others; most similar first."""
        sides = ("first", "second")
        names = ("part", "id", "path", "label")
        columns = [f"{side}_{name}" for side in sides for name in names]
        rows = []
        for k in self.ranked.tolist():
            i, j = self.duplicates.pairs[k].tolist()
            kinds = {"leak": self.leaks[k], "conflict": self.conflicts[k]}
            kind = " ".join(name for name, it_is in kinds.items() if it_is) or "copy"
            similarity = round(float(self.duplicates.similarity[k]), 4)
            rows.append([*self.images.name(i), *self.images.name(j), similarity, kind])
        return pd.DataFrame(rows, columns=[*columns, "similarity", "kind"])

    def tabulate_outliers(self) -> pd.DataFrame:
        """A row for each training image that looks like none of the classes, worst first."""
        classes = self.images.data.train.classes
        rows = []
        for i in self.around.outliers.tolist():
            _, number, path, label = self.images.name(i)
            nearest, score = classes[int(self.around.best[i])], float(self.around.score[i])
            rows.append([number, path, label, nearest, round(score, 4)])
        return pd.DataFrame(
            rows, columns=["id", "path", "given_label", "nearest_label", "outlier_score"]
        )

    def summarize(self) -> dict[str, Any]:
        """The counts, as JSON has them."""
        calibration = self.duplicates.calibration
        return {
            "duplicates": {
                "pairs": len(self.duplicates.pairs),
                "conflicts": int(self.conflicts.sum()),
                "leaks": self.leaked,
                "recall of copies": calibration and calibration.recall,
                "false pairs": calibration and calibration.false,
            },
            "outliers": len(self.around.outliers),
            "alike": [
                {"first": one.first, "second": one.second, "share": one.share}
                for one in self.around.alike
            ],
        }

    def describe_search(self) -> str:
        """How well near-duplicates are found in these data."""
        found = self.duplicates.calibration
        if found is None:
            return "by a fixed cosine: there are no pictures to measure a threshold on"
        copies = ", ".join(f"{share:.0%} {kind}" for kind, share in found.recall.items())
        return (
            f"of copies made of these images {copies} are found; of pairs of different images of "
            f"one class {found.false:.1%} would be taken for copies"
        )

    def list_warnings(self) -> Iterator[str]:
        """What a user should look at."""
        pairs = self.duplicates.pairs
        if len(pairs):
            yield f"{len(pairs):,} pairs of images are near-duplicates: {self._name(~self.leaks)}"
        if self.conflicts.any():
            count = int(self.conflicts.sum())
            yield f"{count:,} of these have different labels: {self._name(self.conflicts)}"
        if self.leaked:
            yield (
                f"{self.leaked:,} test images have a near-duplicate in the training part: "
                f"{self._name(self.leaks)}"
            )
        if worst := self.around.outliers.tolist():
            names = _list_some([self._describe(i) for i in worst])
            yield f"{len(worst):,} images look like none of the classes: {names}"
        for one in self.around.alike[:SOME]:
            yield (
                f"{one.first!r} and {one.second!r} look like one class: their images are each "
                f"other's neighbours {one.share:.0%} as often as their own"
            )

    def _name(self, which: Tensor) -> str:
        """Some of the pairs."""
        names = [
            " = ".join(self._describe(i) for i in pair)
            for pair in self.duplicates.pairs[which][: SOME + 1].tolist()
        ]
        return _list_some(names)

    def _describe(self, i: int) -> str:
        """An image by its path or number, and its label."""
        part, number, path, label = self.images.name(i)
        return f"{path or f'{part} image {number}'} ({label})"


def look_over(data: DatasetSplits, copied: int = COPIED) -> Findings:
    """Search an encoded data set for near-duplicates, outliers and classes that look like one.

    Of `copied` images copies are made, to measure which threshold finds them.
    """
    if len(data.train.images.shape) != 1:
        raise DataError(f"{data.name} holds images; encode them first, as with --features lite0")
    images = EncodedImages(data)
    return Findings(images, find_duplicates(images, copied), look_around(images))


def _list_some(names: Sequence[str]) -> str:
    return ", ".join(names[:SOME]) + (", ..." if len(names) > SOME else "")


def _write_table(path: Path, table: pd.DataFrame) -> None:
    # All texts in quotes: a name may hold any sign.
    write_atomic(path, format_table(table, quoting=csv.QUOTE_NONNUMERIC))
