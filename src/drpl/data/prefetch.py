"""Batches that are read before they are due, in another thread."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from torch import Tensor

from drpl.data.images import Images
from drpl.data.threads import start_threads

T = TypeVar("T")


def load_batches(images: Images, batches: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch with its pixels, the next ones being read while this one is worked on."""
    return read_ahead(images.load, batches, images.ahead)


def read_ahead(
    load: Callable[[Tensor], T], batches: Sequence[Tensor], ahead: int
) -> Iterator[tuple[Tensor, T]]:
    """Each batch with what `load` makes of it; up to `ahead` are loaded before they are due."""
    if not ahead:
        for index in batches:
            yield index, load(index)
        return
    with start_threads(1) as reader:
        coming = (reader.submit(load, index) for index in batches)
        waiting = deque(islice(coming, ahead))
        for index in batches:
            ready = waiting.popleft().result()
            waiting.extend(islice(coming, 1))
            yield index, ready
