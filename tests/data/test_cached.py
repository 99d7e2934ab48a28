"""A cache is used when it is whole and up to date, and made again otherwise."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data import cached
from drpl.data.dataset import Dataset
from drpl.data.images import FileImages
from drpl.data.readers.folder import folder
from drpl.data.sources import ReadOptions
from drpl.errors import DataError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for k in range(12):
        path = tmp_path / "photos" / "ab"[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 9), 20 * k, np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fills with the index of every file that is decoded."""
    seen: list[int] = []
    attempt = FileImages.attempt

    def counted(self: FileImages, index: torch.Tensor) -> object:
        seen.extend(index.tolist())
        return attempt(self, index)

    monkeypatch.setattr(FileImages, "attempt", counted)
    return seen


def read(photos: Path) -> Dataset:
    train = folder(photos, ReadOptions(hold="cache", cache=photos.parent / "cache")).train
    assert isinstance(train.images, cached.CachedImages)
    return train


def greys(data: Dataset) -> list[int]:
    return data.images.load(torch.arange(len(data)))[:, 0, 0, 0].tolist()


ORDER = [0, 200, 40, 80, 120, 160, 20, 220, 60, 100, 140, 180]  # 0.png, 10.png, 2.png, ...


def test_a_cache_is_made_once(photos: Path, decoded: list[int]) -> None:
    assert greys(read(photos)) == ORDER
    assert decoded == list(range(12))
    assert greys(read(photos)) == ORDER
    assert len(decoded) == 12


def change(photos: Path) -> None:
    Image.fromarray(np.full((9, 9), 7, np.uint8)).save(photos / "a" / "0.png")


def touch(photos: Path) -> None:
    os.utime(photos / "a" / "0.png", ns=(1, time.time_ns() + 10**9))


def remove(photos: Path) -> None:
    (photos / "b" / "9.png").unlink()


def rename(photos: Path) -> None:
    (photos / "b" / "9.png").rename(photos / "b" / "99.png")


@pytest.mark.parametrize("edit", [change, touch, remove, rename])
def test_a_changed_folder_is_cached_anew(
    photos: Path, decoded: list[int], edit: Callable[[Path], None]
) -> None:
    before = read(photos)
    edit(photos)
    after = read(photos)
    assert len(decoded) == 12 + len(after)
    assert greys(after)[0] == (7 if edit is change else 0)
    assert greys(before) == ORDER  # a run that goes on keeps what it opened
    assert len(list((photos.parent / "cache").glob("*.images"))) == 1


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def cut_head(data: bytes) -> bytes:
    return data[64:]


def longer(data: bytes) -> bytes:
    return data[:64] + data


def no_mark(data: bytes) -> bytes:
    return data[:-1] + b"?"


def no_json(data: bytes) -> bytes:
    return data.replace(b'"count"', b'"cou\xff\xfe"')


def no_length(data: bytes) -> bytes:
    return data[:-16] + b"\xff" * 8 + data[-8:]


def nothing(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("tear", [cut, cut_head, longer, no_mark, no_json, no_length, nothing])
def test_a_torn_cache_is_never_used(
    photos: Path, decoded: list[int], tear: Callable[[bytes], bytes]
) -> None:
    read(photos)
    (path,) = (photos.parent / "cache").glob("*.images")
    path.write_bytes(tear(path.read_bytes()))
    assert greys(read(photos)) == ORDER
    assert len(decoded) == 24


def test_a_killed_build_leaves_nothing_that_is_used(photos: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from drpl.data import images; from drpl.data.sources import ReadOptions; from drpl.data.readers.folder import folder\n"
        "def dying(*_): yield from list(every(*_)); os._exit(9)\n"
        "every = images.FileImages.every; images.FileImages.every = dying\n"
        "folder(sys.argv[1], ReadOptions(hold='cache', cache=Path(sys.argv[2])))"
    )
    words = [sys.executable, "-c", script, str(photos), str(photos.parent / "cache")]
    assert subprocess.run(words).returncode == 9
    assert [p.suffix for p in (photos.parent / "cache").glob(".*")] == [".partial"]
    assert greys(read(photos)) == ORDER
    assert not list((photos.parent / "cache").glob("*.partial"))


def test_processes_that_start_together_make_one_cache(photos: Path) -> None:
    script = (
        "import sys, torch; from pathlib import Path\n"
        "from drpl.data.sources import ReadOptions; from drpl.data.readers.folder import folder\n"
        "reading = ReadOptions(hold='cache', cache=Path(sys.argv[2]))\n"
        "images = folder(sys.argv[1], reading).train.images\n"
        "print(images.load(torch.arange(12))[:, 0, 0, 0].tolist())"
    )
    words = [sys.executable, "-c", script, str(photos), str(photos.parent / "cache")]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate()[0].strip() for one in running] == [str(ORDER)] * 2


def test_a_cache_that_is_cut_while_in_use(photos: Path) -> None:
    data = read(photos)
    (path,) = (photos.parent / "cache").glob("*.images")
    os.truncate(path, 100)
    with pytest.raises(DataError, match="ends before image 5; delete it and run again"):
        data.images.load(torch.tensor([0, 5]))
