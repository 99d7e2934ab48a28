"""How long it will take to look a data set over, from what some of its images take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from drpl.analysis.alignment import SIDE
from drpl.analysis.copies import KINDS
from drpl.analysis.duplicates import describe_copies
from drpl.analysis.encoded import EncodedImages
from drpl.data.dataset import DatasetSplits

READ, MULTIPLIED, COPIED = 128, 2048, 8  # images that are tried
PRODUCTS = 1.5  # times the product of all vectors with each other, measured on 20,000 images


@dataclass(frozen=True)
class SearchCost:
    """Seconds here."""

    search: float
    copy: float  # of each image that copies are made of

    def of(self, copied: int) -> float:
        """All of it, if copies are made of so many images."""
        return self.search + copied * self.copy


def measure_cost(data: DatasetSplits) -> SearchCost:
    """What `look_over` costs on encoded data that have pictures."""
    whole, index = EncodedImages(data), torch.arange(len(data.train))
    train = data.train.select(index[:: max(1, len(index) // MULTIPLIED)][:MULTIPLIED])
    some = EncodedImages(replace(data, train=train, test=None))
    every, few = torch.arange(len(some)), torch.arange(min(COPIED, len(some)))
    vectors, _ = some.vectors.float(), some.encoder  # loaded before anything is timed
    reading = _time(lambda: list(some.load_squares(every[:READ], SIDE)))
    product = _time(lambda: vectors @ vectors.T)
    copies = _time(lambda: [describe_copies(some, few, kind) for kind in KINDS])
    search = reading * len(whole) / min(READ, len(some))
    search += PRODUCTS * product * (len(whole) / len(some)) ** 2
    return SearchCost(search, copies / len(few))


def _time(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
