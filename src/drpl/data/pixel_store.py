"""Where the pixels of image files are kept: in memory, in one file on disk, or nowhere.

All three give the same bytes. A packed file holds the pixels, [N, C, H, W], and behind them what
they are: a line of JSON, its length and a mark. It gets its name when it is whole. A snapshot
beside it says what the folder was like, so that the next run need not list it again.

A changed file is found when the set is opened. Of more than `FEW` files only their folders are
compared then, and each file when its pixels are first read.
"""

import json
import os
import zipfile
from array import array
from collections.abc import Iterable, Sequence
from glob import escape
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.decoding import read_header, start_decoders
from drpl.data.file_states import FileStates, read_state
from drpl.data.images import (
    PART,
    Broken,
    FileImages,
    Images,
    PackedImages,
    TensorImages,
    select,
)
from drpl.data.sources import ReadOptions
from drpl.errors import DataError
from drpl.files import digest, open_atomic, remove_partials, write_arrays

CACHE = Path(".drpl-cache")
MARK = b"drplimg2"  # another number when files are decoded to other pixels
TAIL = 8 + len(MARK)  # bytes: length of the JSON, mark
FEW = 5_000  # files that are compared when a set is opened, in a fraction of a second
LARGEST = 64  # pixels a side, unless the user asks for more
ENOUGH = 8 * 2**30  # bytes taken to be free where the system does not say
NAMED = 5  # broken files that an error names
PARTS = ("train", "test")
Tables = dict[str, NDArray[Any]]


def hold(
    root: Path,
    names: Sequence[str],
    read_options: ReadOptions,
    part: str,
    shape: tuple[int, ...] | None = None,
) -> tuple[Images, Broken]:
    """The images `root/name` in squares of one size, kept as `read_options` ask.

    Files that cannot be read are left out, and returned with what is wrong with them. `part` tells
    the caches of one root apart. `shape` is for images that must look like others; by default
    it suits the images.
    """
    if read_options.lazy:  # whoever reads them finds the broken ones
        return FileImages(names, read_options.size or LARGEST, 3, root), {}
    way, files = read_options.hold, FileStates(root, names)
    found: tuple[Images, Broken] | None = None
    if way in ("auto", "cache"):
        path = _cache_path(root, read_options, f"{part}.images", shape)
        found = open_packed(path, files.fingerprint, files)
        if found and way == "auto" and fits(found[0], read_options):
            every = torch.arange(len(found[0]))
            found = TensorImages(found[0].load(every), ((files,), every)), found[1]
    if not found:
        channels, side, _ = shape or suit_shape(root, names, read_options.size)
        source = FileImages(names, side, channels, root)
        if way == "memory" or (way == "auto" and fits(source, read_options)):
            found = _decode_all(source, files)
        else:
            found = _try_all(source) if way == "files" else _pack(path, files, source)
    check_broken(found[1], len(names), read_options)
    return found


def check_broken(broken: Broken, count: int, read_options: ReadOptions) -> None:
    """Raise for files that cannot be read, unless they may be left out and others remain."""
    if broken and (not read_options.skip_broken or len(broken) == count):
        named = "; ".join(list(broken.values())[:NAMED])
        more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
        remedy = "or leave them out with --skip-broken"
        if read_options.skip_broken:
            remedy = "for nothing else is there"
        raise DataError(
            f"{len(broken)} of {count} images cannot be read ({named}{more}); mend or remove them, "
            f"{remedy}"
        )


def _decode_all(source: FileImages, files: FileStates) -> tuple[TensorImages, Broken]:
    """All of them in memory, decoded once."""
    pixels = torch.empty(len(source), *source.shape, dtype=torch.uint8)
    filled, broken = 0, Broken()
    for whole, bad in source.attempt_all():
        pixels[filled : filled + len(whole)] = whole
        filled += len(whole)
        broken |= bad
    return TensorImages(pixels[:filled], ((files,), torch.arange(filled))), broken


def _try_all(source: FileImages) -> tuple[Images, Broken]:
    """The files themselves, each decoded once now to find broken ones."""
    broken = {i: why for _, bad in source.attempt_all() for i, why in bad.items()}
    whole = torch.tensor([i for i in range(len(source)) if i not in broken], dtype=torch.int64)
    return (select(source, whole) if broken else source), broken


def suit_shape(root: Path, names: Sequence[str], size: int | None) -> tuple[int, int, int]:
    """Squares that suit most images; one channel if every image is grey."""

    def look(name: str) -> tuple[int, bool] | None:
        try:
            return read_header(os.path.join(root, name))  # noqa: PTH118
        except Exception:  # broken files are named when they are decoded
            return None

    sides, grey = array("l"), True
    with start_decoders() as threads:
        for k in range(0, len(names), PART):
            for found in filter(None, threads.map(look, names[k : k + PART])):
                sides.append(found[0])
                grey = grey and found[1]
            if size and not grey:
                break  # nothing that follows can change the shape
    side = size or suit_size(sides or [LARGEST])
    return (1 if grey and sides else 3), side, side


def suit_size(sides: Sequence[int]) -> int:
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


def fits(images: Images, read_options: ReadOptions) -> bool:
    """Whether they may be held in memory."""
    budget = read_options.memory if read_options.memory is not None else free_memory() // 2
    width = 1 if len(images.shape) == 3 else 4  # bytes: vectors are floats
    return len(images) * prod(images.shape) * width <= budget


def _cache_path(
    root: Path, read_options: ReadOptions, ending: str, shape: tuple[int, ...] | None = None
) -> Path:
    """Where something about a folder at one size is kept; what is newer takes its place."""
    where = root.resolve()
    how = read_options.describe_labels() or ""  # a folder may be read in several ways
    told = f"{where} {read_options.size} {shape}{how}"
    telling = digest(told.encode(errors="surrogateescape"))
    return (read_options.cache or CACHE) / f"{where.name}-{telling}.{ending}"


def open_packed(
    path: Path, key: str, files: FileStates | None = None
) -> tuple[PackedImages, Broken] | None:
    """The packed file at `path` and the files missing in it, if it is whole and made of `key`."""
    try:
        with path.open("rb") as file:
            size = file.seek(-TAIL, os.SEEK_END) + TAIL
            length, mark = int.from_bytes(file.read(8), "little"), file.read()
            if mark != MARK or length > size - TAIL:
                return None
            file.seek(size - TAIL - length)
            about = json.loads(file.read(length))
        shape, count = tuple(about["shape"]), about["count"]
        if about["key"] != key or count * prod(shape) + length + TAIL != size:
            return None
        broken = {int(i): why for i, why in about["broken"].items()}
        return PackedImages(path, shape, count, files), broken
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _pack(path: Path, files: FileStates, source: FileImages) -> tuple[PackedImages, Broken]:
    """The packed file at `path`, decoded unless another process has just done that."""
    key = files.fingerprint
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not open_packed(path, key):
            remove_partials(path.parent, f"{escape(path.name)}.*")
            write_packed(path, key, source.shape, source.attempt_all())
        if whole := open_packed(path, key, files):
            return whole
    raise DataError(f"{path} was changed while it was made; run again")


def write_packed(
    path: Path, key: str, shape: tuple[int, ...], parts: Iterable[tuple[Tensor, Broken]]
) -> None:
    """Write the pixels of all parts, then what they are."""
    broken: Broken = {}
    count = 0
    with open_atomic(path) as file:
        for pixels, bad in parts:
            file.write(pixels.numpy().data)
            broken |= bad
            count += len(pixels)
        about = {"key": key, "shape": shape, "count": count, "broken": broken}
        text = json.dumps(about).encode()
        file.write(text + len(text).to_bytes(8, "little") + MARK)


def save_snapshot(
    data: DatasetSplits, root: Path, tops: Sequence[Path], read_options: ReadOptions
) -> None:
    """Write down a data set if all its images are in packed files; others have no use for it.

    Every image is in a folder of `tops` or below.
    """
    tables: Tables = {}
    for name, part in zip(PARTS, (data.train, data.test), strict=True):
        if part is None:
            continue
        if not isinstance(part.images, PackedImages) or not part.images.files:
            return
        files = part.images.files
        if len(files.names) != len(part):  # some could not be read
            return
        tables[f"{name}_labels"], tables[f"{name}_states"] = part.labels.numpy(), files.states
        tables[f"{name}_packed"] = np.array([part.images.path.name, files.fingerprint])
        tables[f"{name}_names"] = _pack_names(files.names)
    folders = sorted({str(root), *(folder for top in tops for folder, _, _ in os.walk(top))})
    tables |= {
        "folders": _pack_names(folders),
        "times": np.array([read_state(folder)[1] for folder in folders]),
        "classes": np.array(data.train.classes),
        "notes": np.array(data.notes, dtype=np.str_),
        "scale": np.array([data.mean, data.std]),
    }
    path = _cache_path(root, read_options, "snapshot.npz")
    with FileLock(f"{path}.lock"):  # processes that start together write it at the same time
        write_arrays(path, tables)


def open_snapshot(root: Path, read_options: ReadOptions) -> DatasetSplits | None:
    """The data set of a folder from its snapshot, if there is one and nothing has changed."""
    path = _cache_path(root, read_options, "snapshot.npz")
    try:
        with path.open("rb") as file:
            tables = dict(np.load(file, allow_pickle=False))
        folders = _unpack_names(tables["folders"])
        if any(read_state(f)[1] != t for f, t in zip(folders, tables["times"], strict=True)):
            return None
        (mean, std), notes = tables["scale"].tolist(), tuple(map(str, tables["notes"]))
        train = _open_part("train", tables, root, path)
        test = _open_part("test", tables, root, path) if "test_labels" in tables else None
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    parts = [part.images for part in (train, test) if part]
    if read_options.hold == "auto" and all(fits(images, read_options) for images in parts):
        return None
    name, scale = root.resolve().name, (tuple(mean), tuple(std))
    return DatasetSplits(name, train, test, *scale, notes=notes, root=root)


def _open_part(name: str, tables: Tables, root: Path, snapshot: Path) -> Dataset:
    """One part of a data set; raise if its packed file is not there or one of few has changed."""
    packed, key = map(str, tables[f"{name}_packed"])
    paths = _unpack_names(tables[f"{name}_names"])
    files = FileStates(root, paths, tables[f"{name}_states"])
    files.snapshot = snapshot
    few = sum(len(tables.get(f"{part}_labels", ())) for part in PARTS) <= FEW
    files.unchecked[:] = not few
    found = open_packed(snapshot.parent / packed, key, files)
    if not found or (few and not np.array_equal(files.read_states(), files.states)):
        raise ValueError("the snapshot is of other files")
    labels, classes = torch.from_numpy(tables[f"{name}_labels"]), map(str, tables["classes"])
    return Dataset(found[0], labels, tuple(classes), paths=paths)


def _pack_names(names: Sequence[str]) -> NDArray[Any]:
    """Many names in one piece, which is stored and read faster than an array of texts."""
    return np.frombuffer(os.fsencode("\0".join(names)), np.uint8)


def _unpack_names(packed: NDArray[Any]) -> tuple[str, ...]:
    return tuple(os.fsdecode(packed.tobytes()).split("\0"))
