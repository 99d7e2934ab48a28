"""Memory and the time to the first batch do not grow with the number of images."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.pixel_store import write_packed
from drpl.data.readers.folder import folder
from drpl.data.sources import ReadOptions

FEW, MANY = 10_000, 100_000

# An epoch without a network, since a network's needs do not depend on the number of images.
EPOCH = """
import json, resource, sys, time
from pathlib import Path
import torch
from drpl.data.pixel_store import open_packed
from drpl.data.sources import ReadOptions
from drpl.data.transforms import CropFlip, Normalise
from drpl.data.readers.folder import folder
from drpl.training.feed import Feed

torch.set_num_threads(1)
where, seen = Path(sys.argv[1]), 0
cache = Path(sys.argv[2]) if len(sys.argv) > 2 else None
view = CropFlip(8, True, Normalise((0.5,) * 3, (0.25,) * 3))
view(torch.zeros(128, 3, 64, 64, dtype=torch.uint8), torch.rand(128, 3))  # torch wakes up
began = time.perf_counter()
if where.is_dir():
    hold = "cache" if cache else "files"
    images = folder(where, ReadOptions(size=64, hold=hold, cache=cache)).train.images
else:
    images = open_packed(where, "key")[0]
for x, index in Feed(images, view, view, 128, 1, (1, "scale"), torch.device("cpu"))():
    first = first if seen else time.perf_counter() - began
    seen += len(index)
    if cache:
        break  # a whole epoch would leave the next process's first batch to the disk
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak": peak, "first": first, "seen": seen}))
"""


def epoch(*where: Path) -> dict[str, float]:
    words = [sys.executable, "-c", EPOCH, *map(str, where)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def write_cache(path: Path, count: int) -> Path:
    part = torch.randint(0, 256, (1000, 3, 64, 64), dtype=torch.uint8)
    write_packed(path, "key", (3, 64, 64), ((part, {}) for _ in range(count // 1000)))
    return path


def write_files(root: Path, count: int) -> Path:
    """A folder of many names for a few small pictures."""
    draws = np.random.default_rng(1)
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        pixels = draws.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / name / "0.jpg", quality=50)
        for k in range(1, count // 2):
            if k % 10_000:
                (root / name / f"{k}.jpg").hardlink_to(root / name / f"{k - k % 10_000}.jpg")
            else:  # file systems allow only so many names of one file
                Image.fromarray(pixels).save(root / name / f"{k}.jpg", quality=50)
    return root


@pytest.mark.slow
def test_a_cache_of_any_size_takes_the_same_memory_and_starts_as_fast(tmp_path: Path) -> None:
    few, many = (epoch(write_cache(tmp_path / str(count), count)) for count in (FEW, MANY))
    assert (few["seen"], many["seen"]) == (FEW, MANY)
    assert many["peak"] < 1.1 * few["peak"]
    assert many["first"] < 3 * few["first"] + 0.2


@pytest.mark.slow
def test_a_cached_folder_of_any_size_starts_as_fast(tmp_path: Path) -> None:
    """From nothing opened to the first batch, when both were made and read before."""
    cache, first = tmp_path / "cache", {}
    for count in (FEW, MANY):
        root = write_files(tmp_path / str(count), count)
        folder(root, ReadOptions(size=64, hold="cache", cache=cache))
        first[count] = min(epoch(root, cache)["first"] for _ in range(5))
    assert first[MANY] < 1.5 * first[FEW] + 0.05, first


@pytest.mark.slow
def test_a_folder_of_any_size_takes_the_same_memory(tmp_path: Path) -> None:
    few, many = (epoch(write_files(tmp_path / str(count), count)) for count in (FEW, MANY))
    assert (few["seen"], many["seen"]) == (FEW, MANY)
    assert many["peak"] < 1.1 * few["peak"]
