"""Where the pixels of image files are kept: in memory, in one file on disk, or nowhere.

All three give the same bytes. Files that cannot be read are found before anything is trained.
"""

import os
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from drpl.data import cached
from drpl.data.decoding import head
from drpl.data.images import PART, THREADS, Broken, FileImages, Images, TensorImages
from drpl.data.sources import ReadOptions
from drpl.errors import DataError

LARGEST = 64  # pixels a side, unless the user asks for more
ENOUGH = 8 * 2**30  # bytes taken to be free where the system does not say
NAMED = 5  # broken files that an error names


class Held(NamedTuple):
    """The images that could be read, and which of the files these are."""

    images: Images
    kept: Tensor  # [N] bool, a row for every file
    notes: tuple[str, ...]  # a line for every file that was left out


def hold(
    root: Path,
    names: Sequence[str],
    read_options: ReadOptions,
    part: str,
    shape: tuple[int, ...] | None = None,
) -> Held:
    """The images `root/name` in squares of one size, kept as `reading` asks.

    `part` tells the caches of one root apart. `shape` is for images that must look like others;
    by default it suits the images.
    """
    images, broken = kept_somewhere(root, names, read_options, part, shape)
    if broken and (not read_options.skip_broken or len(broken) == len(names)):
        named = "; ".join(list(broken.values())[:NAMED])
        more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
        raise DataError(
            f"{len(broken)} of {len(names)} images cannot be read ({named}{more}); "
            "mend or remove them, or leave them out with --skip-broken"
        )
    kept = torch.ones(len(names), dtype=torch.bool)
    kept[list(broken)] = False
    return Held(images, kept, tuple(f"left out {why}" for why in broken.values()))


def kept_somewhere(
    root: Path,
    names: Sequence[str],
    read_options: ReadOptions,
    part: str,
    shape: tuple[int, ...] | None,
) -> tuple[Images, Broken]:
    """The images that can be read, and what is wrong with the others."""
    budget = read_options.memory if read_options.memory is not None else free_memory() // 2
    if read_options.hold in ("auto", "cache"):
        path, key = cached.address(root, read_options, part, shape), cached.fingerprint(root, names)
        if found := cached.opened(path, key):
            images, broken = found
            fits = len(images) * prod(images.shape) <= budget
            small = read_options.hold == "auto" and fits
            return TensorImages(images.load(torch.arange(len(images)))) if small else images, broken
    channels, side, _ = shape or fitting_shape(root, names, read_options.size)
    source = FileImages(names, side, channels, root)
    fits = len(source) * prod(source.shape) <= budget
    if read_options.hold == "memory" or (read_options.hold == "auto" and fits):
        return in_memory(source)
    if read_options.hold == "files":
        return as_files(source)
    return cached.made(path, key, source)


def in_memory(source: FileImages) -> tuple[TensorImages, Broken]:
    """All of them, decoded once."""
    pixels = torch.empty(len(source), *source.shape, dtype=torch.uint8)
    filled, broken = 0, Broken()
    for whole, bad in source.every():
        pixels[filled : filled + len(whole)] = whole
        filled += len(whole)
        broken |= bad
    return TensorImages(pixels[:filled]), broken


def as_files(source: FileImages) -> tuple[FileImages, Broken]:
    """The files themselves, each decoded once now to find broken ones."""
    broken = Broken()
    for _, bad in source.every():
        broken |= bad
    whole = [path for i, path in enumerate(source.paths) if i not in broken]
    return FileImages(
        whole, source.size, source.channels, source.root
    ) if broken else source, broken


def fitting_shape(root: Path, names: Sequence[str], size: int | None) -> tuple[int, int, int]:
    """Squares that suit most images; one channel if every image is grey."""

    def look(name: str) -> tuple[int, bool] | None:
        try:
            return head(os.path.join(root, name))  # noqa: PTH118
        except Exception:  # broken files are named when they are decoded
            return None

    sides, grey = array("l"), True
    with ThreadPoolExecutor(THREADS) as threads:
        for k in range(0, len(names), PART):
            for found in filter(None, threads.map(look, names[k : k + PART])):
                sides.append(found[0])
                grey = grey and found[1]
            if size and not grey:
                break  # nothing that follows can change the shape
    side = size or chosen_size(sides or [LARGEST])
    return (1 if grey and sides else 3), side, side


def chosen_size(sides: Sequence[int]) -> int:
    """The median of the shorter sides, in steps of 8, up to 64."""
    return max(8, min(LARGEST, int(median(sides)) // 8 * 8))


def free_memory() -> int:
    """Bytes that one of this machine's processes may take, also inside a container."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
        limit, used = (Path(f"/sys/fs/cgroup/memory.{word}") for word in ("max", "current"))
        found.append(int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):
        pass  # no Linux, or no limit
    return max(0, min(found, default=ENOUGH)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
