"""Encoders by name: `lite0`, `onnx:FILE`, `timm:NAME[@FILE]`, `hf:NAME_OR_FOLDER`.

Each takes squares of its own size, uint8 [B, 3, S, S], and gives vectors [B, D]. On CPUs it is run
by onnxruntime where that is installed, which is about twice as fast as torch here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from drpl.errors import ConfigError
from drpl.registry import ENCODERS, find

MEBIBYTE = 2**20

Function = Callable[[Tensor], Tensor]  # uint8 [B, 3, S, S] -> float [B, D]


class ImageNetwork(nn.Module):
    """A network with the scaling of pixels before it: uint8 [B, 3, S, S] -> [B, D].

    Where `backbone` has `compute_map`, the vectors are the means over its maps [B, D, H, W].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: nn.Module, mean: Any, std: Any) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))  # of pixels over 255
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    @property
    def has_maps(self) -> bool:
        """Whether it can say where in an image a feature comes from."""
        return hasattr(self.backbone, "compute_map")

    def compute_map(self, pixels: Tensor) -> Tensor:
        """The last map. [B, D, H, W]"""
        found: Tensor = self.backbone.compute_map(self._scale(pixels))  # type: ignore[operator]
        return found

    def forward(self, pixels: Tensor) -> Tensor:
        """The vectors of images. [B, D]"""
        if self.has_maps:
            return self.compute_map(pixels).mean((2, 3))
        vectors: Tensor = self.backbone(self._scale(pixels))
        return vectors

    def _scale(self, pixels: Tensor) -> Tensor:
        return (pixels.float() / 255 - self.mean) / self.std


@dataclass(frozen=True)
class Encoder:
    """A network with pretrained weights that turns images into vectors."""

    name: str  # as the user writes it
    size: int  # pixels a side
    dim: int
    weights: str  # a fingerprint of them
    megabytes: float
    net: ImageNetwork | None  # None where there is only a file for onnxruntime
    run: Function  # the same by what is fastest here

    @torch.inference_mode()
    def encode(self, pixels: Tensor) -> Tensor:
        """uint8 [B, 3, S, S] -> float32 [B, D], on the CPU."""
        vectors = self.run(pixels).float().cpu()
        if not bool(vectors.isfinite().all()):
            raise ConfigError(
                f"encoder {self.name!r} gives values that are not finite; its file is damaged, or "
                "it wants other images than these"
            )
        return vectors


def load_encoder(
    name: str,
    *,
    size: int | None = None,
    device: torch.device | None = None,
    download: bool = False,
    cache: Path | None = None,
) -> Encoder:
    """The encoder of that name for images of `size` pixels a side (default: its own size).

    Hubs are asked for weights only with `download`. `cache` is where the file for onnxruntime is
    kept between calls.
    """
    kind, colon, what = name.partition(":")
    build = find("encoder", f"{kind}{colon}", ENCODERS).load()
    if colon and not what:
        raise ConfigError(f"{name} wants a name or a file behind the colon")
    return build(what or name, size, device or _choose_device(), download, cache)  # type: ignore[no-any-return]


def _choose_device() -> torch.device:
    """A GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
