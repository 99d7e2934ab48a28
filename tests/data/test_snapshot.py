"""A cached folder is opened without looking at each file, and changes are noticed all the same."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data import snapshot
from drpl.data.cached import CachedImages
from drpl.data.dataset import DatasetSplits
from drpl.data.readers import folder as folders
from drpl.data.sources import ReadOptions
from drpl.errors import DataError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes, one with a folder in its folder, and a test part; names of all kinds."""
    for k, name in enumerate(
        ("train/a/ä ö.png", "train/a/in/1.png", "train/b/2.png", "test/a/3.png")
    ):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 20 * k, np.uint8)).save(path)
    return tmp_path / "photos"


def read(photos: Path, **more: object) -> DatasetSplits:
    read_options = {"hold": "cache", "cache": photos.parent / "cache"} | more
    return folders.folder(photos, ReadOptions(**read_options))  # type: ignore[arg-type]


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, listing a folder is an error."""

    def no(*_: object) -> None:
        raise AssertionError("the folder was listed")

    return lambda: monkeypatch.setattr(folders, "listed", no)


def test_the_second_time_no_folder_is_listed(photos: Path, unlisted: Callable[[], None]) -> None:
    first = read(photos)
    unlisted()
    second = read(photos)
    for one, other in ((first.train, second.train), (first.test, second.test)):
        assert one is not None
        assert other is not None
        assert list(one.paths or ()) == list(other.paths or ())
        assert torch.equal(one.labels, other.labels)
        index = torch.arange(len(one))
        assert torch.equal(one.images.load(index), other.images.load(index))
    assert (first.name, first.mean, first.std) == (second.name, second.mean, second.std)
    assert first.train.classes == second.train.classes


def test_added_and_removed_files_are_noticed(photos: Path) -> None:
    read(photos)
    Image.fromarray(np.full((8, 8), 99, np.uint8)).save(photos / "train" / "a" / "in" / "9.png")
    assert len(read(photos).train) == 4
    (photos / "train" / "a" / "in" / "9.png").unlink()
    assert len(read(photos).train) == 3


def grey(path: Path, value: int) -> None:
    """Overwrite a picture in place: its folder does not change."""
    Image.fromarray(np.full((8, 8), value, np.uint8)).save(path.parents[3] / "new.png")
    path.write_bytes((path.parents[3] / "new.png").read_bytes())
    (path.parents[3] / "new.png").unlink()
    os.utime(path, ns=(time.time_ns(), time.time_ns() + 10**9))


def test_few_overwritten_files_are_noticed_at_once(photos: Path) -> None:
    read(photos)
    grey(photos / "train" / "b" / "2.png", 200)
    assert read(photos).train.images.load(torch.tensor([2])).unique().tolist() == [200]


def test_one_of_many_overwritten_files_stops_the_run_and_the_next_one_has_it(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FEW", 0)
    read(photos)
    grey(photos / "train" / "b" / "2.png", 200)
    stale = read(photos).train.images
    assert isinstance(stale, CachedImages)
    for _ in range(500):
        if stale.doubt:
            break
        time.sleep(0.01)
    with pytest.raises(DataError, match=r"have changed since they were cached; run again"):
        stale.load(torch.tensor([0]))
    assert read(photos).train.images.load(torch.tensor([2])).unique().tolist() == [200]


def test_a_damaged_snapshot_and_a_missing_cache_are_made_again(photos: Path) -> None:
    read(photos)
    (kept,) = (photos.parent / "cache").glob("*.snapshot.npz")
    for content in (b"", b"PK", kept.read_bytes()[:-40]):
        kept.write_bytes(content)
        assert len(read(photos).train) == 3
    for cache in (photos.parent / "cache").glob("*test*.images"):
        cache.unlink()
    assert len(read(photos).test or ()) == 1


def test_what_fits_into_memory_goes_there(photos: Path) -> None:
    read(photos)
    assert not isinstance(read(photos, hold="auto").train.images, CachedImages)
    kept = read(photos, hold="auto", memory=1).train.images
    assert isinstance(kept, CachedImages)


def test_names_are_a_sequence() -> None:
    names = snapshot.Names.of(["a", "", "ü b", "c\udcff"])
    assert list(names) == ["a", "", "ü b", "c\udcff"]
    assert names[1:3] == ["", "ü b"]
    assert names[-1] == "c\udcff"
    with pytest.raises(IndexError):
        names[4]
