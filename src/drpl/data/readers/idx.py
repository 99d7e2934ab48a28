"""Images in idx files, packed or not: Fashion-MNIST, MNIST and others of their kind."""

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, in_memory, statistics
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError

FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
UNSIGNED = 8  # the idx code of bytes, the only kind these sets have
LIMIT = 2**32  # bytes; more is taken for a damaged header
CHUNK = 2**20


def read_fashion(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """Fashion-MNIST, whatever its folder is called."""
    return read(root, read_options, FASHION)


def read(
    root: Path, read_options: ReadOptions | None = None, names: Sequence[str] | None = None
) -> DatasetSplits:
    """The set in a folder; its classes are numbers, unless it is called after Fashion-MNIST."""
    pixels, labels = _read_part(root, "train")
    if names is None:
        fashion = "fashion" in root.resolve().name.lower()
        names = FASHION if fashion else [str(c) for c in range(int(labels.max()) + 1)]
    train = in_memory(pixels, labels, names)
    test: Dataset | None = None
    if any(root.glob("t10k-images-idx3-ubyte*")):
        test = in_memory(*_read_part(root, "t10k"), names)
    return DatasetSplits(root.resolve().name, train, test, *statistics(train.images))


def _read_part(root: Path, part: str) -> tuple[Tensor, Tensor]:
    """uint8 [N, 1, H, W] and int64 [N]."""
    pixels = _read_idx(root / f"{part}-images-idx3-ubyte", 3)[:, None]
    labels = _read_idx(root / f"{part}-labels-idx1-ubyte", 1).long()
    if not len(labels) or not pixels.numel():
        raise DataError(f"the {part} files in {root} hold no images")
    return pixels, labels


def _read_idx(path: Path, dimensions: int) -> Tensor:
    """A uint8 tensor with that number of dimensions, from the plain file or the packed one."""
    packed = path.with_name(f"{path.name}.gz")
    if not path.is_file() and not packed.is_file():
        raise DataError(f"there is neither {path} nor {packed.name}")
    path = path if path.is_file() else packed
    with explain_data_errors(path), gzip.open(path) if path == packed else path.open("rb") as file:
        header = file.read(4 + 4 * dimensions)
        if header[:4] != bytes([0, 0, UNSIGNED, dimensions]) or len(header) < 4 + 4 * dimensions:
            raise DataError(f"{path} is no idx file of bytes in {dimensions} dimensions")
        shape = np.frombuffer(header, ">u4")[1:].tolist()
        size = math.prod(shape)
        content = bytearray()
        # In steps, because one large read would take memory before a byte has come.
        while len(content) <= min(size, LIMIT) and (block := file.read(CHUNK)):
            content += block
    if len(content) != size:
        came = f"more than {size}" if len(content) > size else str(len(content))
        raise DataError(f"{path} should hold {size} bytes after its header, but has {came}")
    return torch.from_numpy(np.frombuffer(content, np.uint8).reshape(shape))
