"""A folder such as people have: real images of several kinds and sizes, with wrong labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

NAMES = ["null 0", "eins", "zwei", "drei", "vier", "fünf", "sechs", "Sieben 七"]
KINDS = (("png", "L"), ("png", "RGB"), ("jpg", "L"), ("png", "P"), ("jpeg", "RGB"), ("png", "RGBA"))
SCALES = (3, 4, 5)


@dataclass(frozen=True)
class Messy:
    """The folder, and by the file's path which class it shows (-1: none of them)."""

    folder: Path
    truth: dict[str, int]

    def wrong(self, path: str) -> bool:
        """Whether the file lies in a folder that is not its class's."""
        return NAMES.index(Path(path).parts[0]) != self.truth[path]


def messy_digits(folder: Path, uniform: float, outside: float, seed: int = 3) -> Messy:
    """Digits 0 to 7 as files, a share in wrong folders; a share gives way to 8s and 9s."""
    images, labels = load_digits(return_X_y=True)
    draws = np.random.default_rng(seed)
    inside, others = np.flatnonzero(labels < 8), draws.permutation(np.flatnonzero(labels >= 8))
    samples = len(inside)
    order = draws.permutation(samples)
    flipped = set(order[: round(uniform * samples)].tolist())
    replaced = set(order[round(uniform * samples) : round((uniform + outside) * samples)].tolist())
    truth: dict[str, int] = {}
    strangers = iter(others.tolist())
    for number, index in enumerate(inside.tolist()):
        label = int(labels[index])
        shown = label
        if number in replaced:
            index, shown = next(strangers), -1
        elif number in flipped:
            label = (label + int(draws.integers(1, 8))) % 8
        suffix, mode = KINDS[number % len(KINDS)]
        path = Path(NAMES[label]) / f"scan {number} ü.{suffix}"
        write(folder / path, images[index].reshape(8, 8), mode, SCALES[number % len(SCALES)])
        truth[str(path)] = shown
    (folder / NAMES[0] / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0 not all of it")
    return Messy(folder, truth)


def write(path: Path, digit: NDArray[np.float64], mode: str, scale: int) -> None:
    """A digit of 8 x 8 numbers up to 16 as a file of that mode, `scale` times as large."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = Image.fromarray((digit * 15.9).astype(np.uint8))
    grey.resize((8 * scale, 8 * scale), Image.Resampling.BICUBIC).convert(mode).save(path)
