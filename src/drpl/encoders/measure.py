"""How fast the encoders are here."""

import time
from collections.abc import Iterator
from statistics import median

import torch
from torch import Tensor

from drpl.data.images import Images, attempt, redecode
from drpl.data.pixel_store import CACHE
from drpl.data.prefetch import read_ahead
from drpl.encoders.encoder import Encoder, Function, load_encoder
from drpl.errors import DrplError
from drpl.randomness import rng
from drpl.registry import ENCODERS

IMAGES, SECONDS = 32, 1.0  # in a batch, and to measure for
PARTS = 16  # batches of a data set that an encoder is timed on,
ENOUGH, LONGEST = 4, 4.0  # or these at least, where more would take longer than that


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


def time_image(encoder: Encoder, images: Images) -> float:
    """Seconds that one of these images takes, decoding included.

    Nothing is stored, so what was encoded before takes as long as what is new. The first batch
    warms up the encoder, and counts only if it is alone. Of the others it is the median: that
    something else had the machine for a moment says little of the minutes to come.
    """
    shown = redecode(images, encoder.size)
    some = torch.randperm(len(images), generator=rng("speed"))[: PARTS * IMAGES]
    first, *rest = some.split(IMAGES)
    _encode(encoder, attempt(shown, first)[0])
    times, began = [], time.perf_counter()
    for part, (pixels, _) in read_ahead(lambda part: attempt(shown, part), rest or [first], 2):
        _encode(encoder, pixels)
        began, before = time.perf_counter(), began
        times.append((began - before) / len(part))
        if len(times) >= ENOUGH and sum(times) * IMAGES > LONGEST:
            break
    return median(times)


def _encode(encoder: Encoder, pixels: Tensor) -> None:
    if len(pixels):  # else no file of the batch can be read
        encoder.encode(pixels)
