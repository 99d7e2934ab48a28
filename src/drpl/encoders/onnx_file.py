"""Any image model in an ONNX file as an encoder: `onnx:FILE[,mean=...][,std=...][,layout=...]`.

How pixels are scaled is read from the file's metadata (`mean`, `std`: numbers for each channel, of
pixels divided by 255), or given after the file's name with slashes between the numbers:

    onnx:model.onnx,mean=0.5/0.5/0.5,std=0.5/0.5/0.5,layout=nhwc

Without either it is ImageNet's usual scaling; a model that takes uint8 is given the pixels.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drpl.data.file_states import read_state
from drpl.encoders.encoder import Encoder
from drpl.encoders.engine import BATCH, open_session
from drpl.errors import ConfigError, did_you_mean
from drpl.files import digest

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's
SIZE = 224  # pixels, where the model takes any
OPTIONS = ("mean", "std", "layout")
KINDS = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}


def load_onnx(
    what: str, size: int | None, device: torch.device, download: bool, cache: Path | None
) -> Encoder:
    """The encoder in an ONNX file."""
    name, *options = what.split(",")
    path, given = Path(name), _parse_options(options, what)
    if not path.is_file():
        raise ConfigError(f"there is no ONNX file {path}")
    try:
        content = path.read_bytes()
        session = open_session(str(path))  # by name: its weights may be in files beside it
    except ImportError:
        raise ConfigError(
            "an ONNX file needs the package onnxruntime; install it with: pip install 'drpl[onnx]'"
        ) from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ConfigError(
            f"{path} has {len(inputs)} inputs ({', '.join(one.name for one in inputs)}); an "
            "encoder takes images and nothing else"
        )
    taken = _Input(inputs[0], given, session.get_modelmeta().custom_metadata_map, path, size)

    def run(pixels: Tensor) -> Tensor:
        parts = []
        for part in pixels.split(taken.batch):
            lacking = taken.batch - len(part) if taken.fixed else 0
            whole = torch.cat([part, part[-1:].expand(lacking, -1, -1, -1)]) if lacking else part
            output = session.run(None, {taken.name: taken.prepare(whole)})[0]
            if output.ndim not in (2, 3, 4) or len(output) != len(whole):
                raise ConfigError(
                    f"{path} gives {output.shape} for {len(whole)} images; wanted is a vector each"
                )
            parts.append(torch.from_numpy(output[: len(part)]))
        return _pool(torch.cat(parts))

    try:
        shape = run(torch.zeros(1, 3, taken.size, taken.size, dtype=torch.uint8)).shape
    except ConfigError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{path} cannot be run on images of {taken.size} px: {reason}") from error
    weights = digest(content, repr(given).encode(), *_list_beside(path, content))
    return Encoder(f"onnx:{what}", taken.size, shape[1], weights, len(content) / 2**20, None, run)


class _Input:
    """What a model wants to be given."""

    def __init__(
        self,
        declared: Any,
        given: dict[str, Any],
        about: dict[str, str],
        path: Path,
        size: int | None,
    ) -> None:
        self.name, shape = declared.name, list(declared.shape)
        if len(shape) != 4 or declared.type not in KINDS:
            raise ConfigError(
                f"{path} takes {declared.type} of shape {shape}; an encoder takes images "
                "[N, 3, H, W] or [N, H, W, 3]"
            )
        self.kind = KINDS[declared.type]
        self.last = given.get("layout", "nhwc" if shape[3] == 3 != shape[1] else "nchw") == "nhwc"
        channels, side = shape[3 if self.last else 1], shape[1 if self.last else 2]
        if isinstance(channels, int) and channels != 3:
            raise ConfigError(f"{path} takes images of {channels} channels; an encoder takes three")
        fixed = side if isinstance(side, int) else None
        if fixed and size and size != fixed:
            raise ConfigError(f"{path} takes images of {fixed} px, not of {size}; leave --size out")
        self.size = fixed or size or SIZE
        self.fixed = isinstance(shape[0], int)  # it takes that many images, no fewer
        self.batch = shape[0] if self.fixed else BATCH
        self.scale = None
        if self.kind != np.uint8:
            mean = given.get("mean") or _read_metadata("mean", about, path) or MEAN
            std = given.get("std") or _read_metadata("std", about, path) or STD
            self.scale = torch.tensor(mean).view(-1, 1, 1), torch.tensor(std).view(-1, 1, 1)

    def prepare(self, pixels: Tensor) -> Any:
        """uint8 [B, 3, S, S] as the model takes them."""
        x = pixels
        if self.scale:
            x = (pixels.float() / 255 - self.scale[0]) / self.scale[1]
        x = x.permute(0, 2, 3, 1) if self.last else x
        return x.contiguous().numpy().astype(self.kind)


def _list_beside(path: Path, content: bytes) -> Iterator[bytes]:
    """Sizes and times of the files beside a model that hold its weights."""
    for other in sorted(path.parent.iterdir()):
        name = os.fsencode(other.name)
        # So a model says where tensors are: a key, and a value with its length in front.
        if b"location\x12" + bytes([len(name)]) + name in content:
            yield repr((other.name, read_state(str(other)))).encode()


def _pool(output: Tensor) -> Tensor:
    """Vectors: the mean over a map [B, D, H, W], or over tokens [B, T, D]."""
    if output.ndim == 4:
        return output.mean((2, 3))
    return output.mean(1) if output.ndim == 3 else output


def _parse_options(options: list[str], what: str) -> dict[str, Any]:
    """What follows the file's name."""
    found: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or key not in OPTIONS:
            raise ConfigError(f"onnx:{what}: unknown {option!r}; {did_you_mean(key, OPTIONS)}")
        if key == "layout":
            if text not in ("nchw", "nhwc"):
                raise ConfigError(f"onnx:{what}: layout is nchw or nhwc, not {text!r}")
            found[key] = text
        else:
            found[key] = _read_numbers(key, text.split("/"), f"onnx:{what}")
    return found


def _read_metadata(key: str, about: dict[str, str], path: Path) -> tuple[float, ...] | None:
    """Numbers from a file's metadata, as a JSON list."""
    if key not in about:
        return None
    try:
        values = json.loads(about[key])
    except ValueError:
        values = about[key]
    return _read_numbers(key, values, f"the metadata of {path}")


def _read_numbers(key: str, values: Any, where: str) -> tuple[float, ...]:
    """A number for each channel."""
    try:
        numbers = tuple(float(value) for value in values)
        if len(numbers) == 3 and (key == "mean" or all(numbers)):
            return numbers
    except (ValueError, TypeError):
        pass
    more = "" if key == "mean" else " that are not 0"
    raise ConfigError(f"{where}: {key} wants three numbers{more}, not {values!r}")
