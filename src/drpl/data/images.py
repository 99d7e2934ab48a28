"""Where pixels come from. After `load` every source looks the same."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from drpl.data.decoding import Pixels, decode, reason
from drpl.errors import DataError

THREADS = 8  # decoding waits on disks as much as on cores
PART = 512  # images that are decoded before the next ones are begun

T = TypeVar("T")
Broken = dict[int, str]  # index of a file -> its path and what is wrong with it


class Images(Protocol):
    """A fixed number of images (or vectors) of one shape, by index."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width), or (features,)."""
        ...

    @property
    def ahead(self) -> int:
        """How many batches are worth loading before they are asked for."""
        ...

    def __len__(self) -> int: ...

    def load(self, index: Tensor) -> Tensor:
        """uint8 [B, C, H, W], or float [B, D] for vectors."""
        ...


class TensorImages:
    """Images in memory: loading is indexing."""

    ahead = 0

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width), or (features,)."""
        return tuple(self.pixels.shape[1:])

    def __len__(self) -> int:
        return len(self.pixels)

    def load(self, index: Tensor) -> Tensor:
        """The rows of `index`."""
        return self.pixels[index.to(self.pixels.device)]


class FileImages:
    """Image files, decoded by threads when they are asked for."""

    ahead = 2

    def __init__(
        self, paths: Sequence[str | Path], size: int, channels: int, root: Path | str = ""
    ) -> None:
        self.paths = tuple(map(str, paths))  # relative to `root`
        self.root, self.size, self.channels = str(root), size, channels
        self._threads = ThreadPoolExecutor(THREADS)

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return (self.channels, self.size, self.size)

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: Tensor) -> Tensor:
        """Decode the files of `index`."""
        pixels, broken = self.attempt(index)
        if broken:
            raise DataError(f"cannot read image {next(iter(broken.values()))}")
        return pixels

    def attempt(self, index: Tensor) -> tuple[Tensor, Broken]:
        """The images of `index` that can be read, and why the others can not."""
        pixels = np.empty((len(index), *self.shape), np.uint8)
        why = list(self._threads.map(self._decode_into, pixels, index.tolist()))
        broken = {i: text for i, text in zip(index.tolist(), why, strict=True) if text}
        whole = [k for k, text in enumerate(why) if not text]
        return torch.from_numpy(pixels[whole] if broken else pixels), broken

    def every(self) -> Iterator[tuple[Tensor, Broken]]:
        """An attempt at all of them, part by part."""
        return (self.attempt(part) for part in torch.arange(len(self)).split(PART))

    def _decode_into(self, row: Pixels, i: int) -> str | None:
        """Fill `row` with image `i`, or say what is wrong with its file."""
        path = os.path.join(self.root, self.paths[i])  # noqa: PTH118  a million Paths take long
        try:
            row[:] = decode(path, self.size, self.channels)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file makes decoders raise almost anything
            return f"{path}: {reason(error)}"
        return None


def loaded(images: Images, batches: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch with its pixels, the next ones being read while this one is worked on."""
    return read_ahead(images.load, batches, images.ahead)


def read_ahead(
    load: Callable[[Tensor], T], batches: Sequence[Tensor], ahead: int
) -> Iterator[tuple[Tensor, T]]:
    """Each batch with what `load` makes of it, so many being loaded before they are asked for."""
    if not ahead:
        for index in batches:
            yield index, load(index)
        return
    with ThreadPoolExecutor(1) as reader:
        waiting = deque((index, reader.submit(load, index)) for index in batches[:ahead])
        for k in range(len(batches)):
            index, coming = waiting.popleft()
            ready = coming.result()
            if k + ahead < len(batches):
                following = batches[k + ahead]
                waiting.append((following, reader.submit(load, following)))
            yield index, ready
