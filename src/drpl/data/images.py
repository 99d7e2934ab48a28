"""Where pixels come from. After `load` every source looks the same."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from drpl.errors import DataError

THREADS = 8  # decoding waits on disks as much as on cores


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

    def __init__(self, paths: Sequence[Path], size: int, channels: int) -> None:
        self.paths, self.size, self.channels = tuple(paths), size, channels

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return (self.channels, self.size, self.size)

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: Tensor) -> Tensor:
        """Decode the files of `index`."""
        with ThreadPoolExecutor(THREADS) as pool:
            return torch.stack(list(pool.map(self._decode, index.tolist())))

    def in_memory(self) -> TensorImages:
        """All of them, decoded once."""
        return TensorImages(self.load(torch.arange(len(self))))

    def _decode(self, i: int) -> Tensor:
        return decode(self.paths[i], self.size, self.channels)


def decode(path: Path, size: int, channels: int) -> Tensor:
    """One file as uint8 [C, size, size]."""
    try:
        with Image.open(path) as file:
            return squared(file, size, channels)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"cannot read image {path}: {reason(error)}") from error


def squared(file: Image.Image, size: int, channels: int) -> Tensor:
    """uint8 [C, size, size]; the aspect is not kept, as in the paper's WebVision."""
    image = upright(file).resize((size, size), Image.Resampling.BOX, reducing_gap=None)
    flat = image.convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(flat).reshape(size, size, channels)
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).contiguous()


def reason(error: Exception) -> str:
    """Pillow's complaint in a user's words."""
    text = str(error)
    if "cannot identify" in text:
        return "it is not an image that can be read"
    return text.splitlines()[0] if text else type(error).__name__


def upright(file: Image.Image) -> Image.Image:
    """The first frame, turned as its camera meant it, in 8 bits, on white where transparent."""
    image = ImageOps.exif_transpose(file)
    if image.mode.startswith("I"):  # 16 bits (PNG, TIFF)
        deep = np.asarray(image).astype(np.int64)
        return Image.fromarray(
            (deep >> 8 if deep.max() > 255 else deep).clip(0, 255).astype(np.uint8)
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image if image.mode in ("L", "RGB") else image.convert("L" if is_grey(image) else "RGB")


def is_grey(image: Image.Image) -> bool:
    """Whether a file holds no colour by its mode."""
    return image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")
