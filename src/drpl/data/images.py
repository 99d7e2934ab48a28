"""Where pixels come from, and lazy selections, concatenations and other sizes of them."""

import hashlib
import os
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from math import prod
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from drpl.data.decoding import Pixels, decode, explain, start_decoders
from drpl.data.file_states import FileStates, hash_parts
from drpl.errors import DataError
from drpl.files import make_printable

PART = 512  # images that are decoded before the next ones are begun
LUMA = (0.299, 0.587, 0.114)  # the weights of Pillow's conversion to grey

HASHED = 4096  # images in memory whose values are hashed at once

Broken = dict[int, str]  # index of a file -> its path and what is wrong with it


class Images(Protocol):
    """A fixed number of images (or vectors) of one shape, by index."""

    shape: tuple[int, ...]  # (channels, height, width), or (features,)
    ahead: int  # how many batches are worth loading before they are asked for

    def __len__(self) -> int: ...

    def load(self, index: Tensor) -> Tensor:
        """uint8 [B, C, H, W], or float [B, D] for vectors."""
        ...


class Source(Protocol):
    """What images were made of."""

    @property
    def digest(self) -> str:
        """Another text for other content."""
        ...


Lineage = tuple[tuple[Source, ...], Tensor]  # rows [N], counted through the sources


class TensorImages:
    """Images in memory: loading is indexing."""

    ahead = 0

    def __init__(self, pixels: Tensor, made_of: Lineage | None = None) -> None:
        self.pixels, self.shape = pixels, tuple(pixels.shape[1:])
        self.made_of = made_of  # files, for example; None: they are their own source

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
        self.root = str(root)
        self.shape: tuple[int, ...] = (channels, size, size)
        self._threads = start_decoders()

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

    def attempt_all(self) -> Iterator[tuple[Tensor, Broken]]:
        """An attempt at all of them, part by part."""
        return (self.attempt(part) for part in torch.arange(len(self)).split(PART))

    def _decode_into(self, row: Pixels, i: int) -> str | None:
        """Fill `row` with image `i`, or say what is wrong with its file."""
        path = os.path.join(self.root, self.paths[i])  # noqa: PTH118  a million Paths take long
        try:
            row[:] = decode(path, self.shape[1], self.shape[0])
        except MemoryError:
            raise
        except Exception as error:  # a damaged file makes decoders raise almost anything
            return f"{make_printable(path)}: {explain(error)}"
        return None


class PackedImages:
    """Images in a file of pixels.

    They are read, not mapped: pages of a map would count as this process's memory, and a file
    cut short would end it without a word.
    """

    ahead = 2

    def __init__(
        self, path: Path, shape: tuple[int, ...], count: int, files: FileStates | None = None
    ) -> None:
        self.path, self.shape, self.count = path, shape, count
        self.files = files  # what the pixels were decoded from, where that matters
        self._file, self._lock = path.open("rb", buffering=0), Lock()
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self.count

    def load(self, index: Tensor) -> Tensor:
        """Read the rows of `index`."""
        if self.files:
            self.files.check(index.cpu().numpy())
        pixels = np.empty((len(index), *self.shape), np.uint8)
        size = prod(self.shape)
        with self._lock:
            for row, i in zip(pixels, index.tolist(), strict=True):
                self._file.seek(i * size)
                if self._file.readinto(row) != size:
                    raise DataError(f"{self.path} ends before image {i}; delete it and run again")
        return torch.from_numpy(pixels)


class ComposedImages:
    """Rows of other sources in any order, brought to one shape as they are loaded."""

    def __init__(
        self, sources: Sequence[Images], rows: Tensor, shape: tuple[int, ...] | None = None
    ) -> None:
        self.sources = tuple(sources)
        self.rows = rows  # [N], counted through all sources one after the other
        self.shape = shape or sources[0].shape
        self.ahead = max(source.ahead for source in sources)
        self._starts = torch.tensor([0, *accumulate(map(len, sources))])

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, index: Tensor) -> Tensor:
        """Each row from its source."""
        pixels, broken = self.attempt(index)
        if broken:
            raise DataError(f"cannot read image {next(iter(broken.values()))}")
        return pixels

    def attempt(self, index: Tensor) -> tuple[Tensor, Broken]:
        """The rows that can be read, each from its source, and why the others can not."""
        places, parts, broken = [], [], Broken()
        for source, place, inner in self.locate(index):
            pixels, bad = attempt(source, inner)
            if bad:
                broken |= {
                    int(index[at]): bad[i]
                    for at, i in zip(place.tolist(), inner.tolist(), strict=True)
                    if i in bad
                }
                place = place[[i not in bad for i in inner.tolist()]]
            places.append(place)
            parts.append(_convert(pixels, self.shape))
        if len(parts) == 1:
            return parts[0], broken
        return torch.cat(parts)[torch.cat(places).argsort()], broken

    def locate(self, index: Tensor) -> Iterator[tuple[Images, Tensor, Tensor]]:
        """Each source that is needed, which places of `index` it fills, and with what rows."""
        rows = self.rows[index.cpu()]
        source = torch.bucketize(rows, self._starts, right=True) - 1
        for k in source.unique().tolist() or [0]:
            place = (source == k).nonzero().flatten()
            yield self.sources[k], place, rows[place] - self._starts[k]


def _convert(pixels: Tensor, shape: tuple[int, ...]) -> Tensor:
    """uint8 images of that shape; grey ones get three equal channels, coloured ones lose them."""
    if pixels.shape[1:] == shape:
        return pixels
    pixels = pixels.float()
    if pixels.shape[1] == 3 and shape[0] == 1:
        pixels = (pixels * torch.tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)
    pixels = pixels.expand(-1, shape[0], -1, -1)
    if pixels.shape[2:] != shape[1:]:
        pixels = interpolate(pixels, shape[1:], mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8)


def attempt(images: Images, index: Tensor) -> tuple[Tensor, Broken]:
    """The images of `index` that can be read, and why the others can not."""
    if isinstance(images, FileImages | ComposedImages):
        return images.attempt(index)
    return images.load(index), {}


def redecode(images: Images, side: int) -> Images:
    """Coloured squares of that size: files are decoded to it, other images are scaled."""
    if isinstance(images, FileImages):
        return FileImages(images.paths, side, 3, images.root)
    sources: tuple[Images, ...] = (images,)
    rows = torch.arange(len(images))
    if isinstance(images, ComposedImages):
        sources, rows = tuple(redecode(one, side) for one in images.sources), images.rows
    return ComposedImages(sources, rows, (3, side, side))


def list_files(images: Images, index: Tensor) -> list[str] | None:
    """The file of each image at `index`; None where some have no file of their own."""
    if isinstance(images, FileImages):
        return [os.path.join(images.root, images.paths[i]) for i in index.tolist()]  # noqa: PTH118
    if not isinstance(images, ComposedImages):
        return None
    found = [""] * len(index)
    for source, place, inner in images.locate(index):
        files = list_files(source, inner)
        if files is None:
            return None
        for at, file in zip(place.tolist(), files, strict=True):
            found[at] = file
    return found


def select(images: Images, index: Tensor) -> Images:
    """The images at `index`; those in memory stay there as one tensor."""
    if isinstance(images, TensorImages):
        made_of = images.made_of and (images.made_of[0], images.made_of[1][index.cpu()])
        return TensorImages(images.load(index), made_of)
    if isinstance(images, ComposedImages):
        return ComposedImages(images.sources, images.rows[index], images.shape)
    return ComposedImages((images,), index)


def fit(images: Images, shape: tuple[int, ...]) -> Images:
    """The images in that shape as they are loaded, or an error where there is no way."""
    if images.shape == shape:
        return images
    pictures = len(images.shape) == len(shape) == 3
    if not pictures or {images.shape[0], shape[0]} not in ({1}, {3}, {1, 3}):
        raise DataError(
            f"out-of-distribution images have shape {images.shape} and cannot be brought to "
            f"{shape}; give images (or vectors) like those of the data set"
        )
    return ComposedImages((images,), torch.arange(len(images)), shape)


def resize(images: Images, side: int) -> Images:
    """Squares of that size; what was in memory stays there. Vectors have no size."""
    if len(images.shape) != 3:
        return images
    small = fit(images, (images.shape[0], side, side))
    return small if small is images else _hold_like(small, images)


def _hold_like(composed: Images, images: Images) -> Images:
    """In memory as one tensor, if `images` are."""
    if not isinstance(images, TensorImages):
        return composed
    parts = torch.arange(len(composed)).split(1000)
    made_of = trace(composed) if images.made_of else None
    return TensorImages(torch.cat([composed.load(part) for part in parts]), made_of)


def concat(first: Images, second: Images) -> Images:
    """Both, the second in the shape of the first."""
    rows = torch.arange(len(first) + len(second))
    return ComposedImages((first, fit(second, first.shape)), rows)


def replace_rows(images: Images, rows: Tensor, others: Images, other_rows: Tensor) -> Images:
    """The images, with others in place of those at `rows`; a copy if they are in memory."""
    every = torch.arange(len(images))
    every[rows] = len(images) + other_rows
    return _hold_like(ComposedImages((images, fit(others, images.shape)), every), images)


def trace(images: Images) -> Lineage:
    """Of what sources images were made, and which rows of them they are.

    The same files give the same answer wherever their pixels are kept.
    """
    own = torch.arange(len(images))
    if isinstance(images, ComposedImages):
        found = [trace(source) for source in images.sources]
        if len(found) == 1:
            return found[0][0], found[0][1][images.rows]
        return tuple(_Part(*one) for one in found), images.rows
    if isinstance(images, FileImages):
        return (FileStates(Path(images.root), images.paths),), own
    if isinstance(images, PackedImages) and images.files:
        return (images.files,), own
    made_of: Lineage | None = getattr(images, "made_of", None)
    return made_of or ((_Content(images),), own)


def identify(images: Images) -> str:
    """A text that is another one for other images."""
    return _Part(*trace(images)).digest


class _Part:
    """Rows of sources."""

    def __init__(self, sources: tuple[Source, ...], rows: Tensor) -> None:
        texts = [source.digest.encode() for source in sources]
        self.digest = hash_parts(*texts, rows.numpy().tobytes())


class _Content:
    """Images that were made in memory, or whose files nobody knows any more."""

    def __init__(self, images: Images) -> None:
        self.images = images

    @cached_property
    def digest(self) -> str:
        """That of every value."""
        hashed = hashlib.blake2b(digest_size=8)
        for part in torch.arange(len(self.images)).split(HASHED):
            hashed.update(self.images.load(part).cpu().contiguous().numpy().ravel().data)
        return hashed.hexdigest()
