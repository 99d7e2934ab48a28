"""How fast the encoders are that are installed here."""

import time
from collections.abc import Iterator

import torch

from drpl.data.pixel_store import CACHE
from drpl.encoders.encoder import Function, load_encoder
from drpl.errors import DrplError
from drpl.registry import ENCODERS

IMAGES, SECONDS = 32, 1.0  # in a batch, and to measure for


def measure_encoders() -> Iterator[str]:
    """A line for each: dimension, size, megabytes and images a second, or what is missing."""
    yield f"{'here':<12}{'numbers':>9}{'pixels':>8}{'MB':>6}{'images/s':>10}"
    for name in (name for name in ENCODERS if not name.endswith(":")):
        try:
            encoder = load_encoder(name, cache=CACHE / "features")
        except DrplError as error:
            yield f"{name:<12}{error}"
            continue
        speed = _measure(encoder.run, encoder.size)
        about = f"{encoder.dim:>9}{encoder.size:>8}{encoder.megabytes:>6.0f}{speed:>10.0f}"
        yield f"{name:<12}{about}"


def _measure(run: Function, size: int) -> float:
    """Images a second, of pixels in memory."""
    pixels = torch.zeros(IMAGES, 3, size, size, dtype=torch.uint8)
    run(pixels)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        run(pixels)
        count += IMAGES
    return count / (time.perf_counter() - began)
