"""Where data sets are looked for, and who fetches them."""

import threading
import time
from pathlib import Path

import pytest

from drpl.data import locate as locating
from drpl.data.locate import PLACES, Place, locate
from drpl.data.readers.list import find_images
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError, StorageError
from tests.support.datasets import make_pictures

PLACE = Place("sign", ("set",), "https://nowhere/set.tar.gz")


def test_sets_that_are_not_there(tmp_path: Path) -> None:
    for name in ("cifar10", "cifar100", "cifar10n", "imagenet32", "fashion-mnist", "webvision"):
        with pytest.raises(DataError, match="--data-dir or DRPL_DATA"):
            load(name, ReadOptions(data_dir=tmp_path))
    with pytest.raises(DataError, match="get it from its makers"):
        load("imagenet32", ReadOptions(data_dir=tmp_path, download=True))
    make_pictures(tmp_path / "photos", ["train/a/1.png", "train/b/2.png", "test/a/3.png"])
    assert load(str(tmp_path / "photos")).train.classes == ("a", "b")


def test_a_second_process_waits_and_finds_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks are held by open files, so two threads stand for two processes."""
    fetched: list[str] = []

    def obtain(url: str, md5: str, folder: Path) -> None:
        fetched.append(url)
        time.sleep(0.1)
        folder.mkdir()
        (folder / "sign").touch()

    monkeypatch.setattr(locating, "obtain", obtain)
    monkeypatch.setitem(PLACES, "a set", PLACE)
    options = ReadOptions(data_dir=tmp_path / "new", download=True)
    found: list[Path] = []

    def look() -> None:
        found.append(locate("a set", options))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [PLACE.url]
    assert found == [tmp_path / "new" / "set"] * 3


def test_a_data_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, "a set", PLACE)
    (tmp_path / "file").touch()
    options = ReadOptions(data_dir=tmp_path / "file" / "below", download=True)
    with pytest.raises(StorageError, match="cannot write"):
        locate("a set", options)


def test_images_of_paths(tmp_path: Path) -> None:
    make_pictures(tmp_path, ["a/1.png", "a/b/2.jpg", "3.png"])
    (tmp_path / "list.csv").write_text("label,path\nx,a/1.png\n")
    found = list(find_images([tmp_path / "a", tmp_path / "list.csv", tmp_path / "3.png"]))
    names = [str(Path(name).relative_to(tmp_path)) for name in found]
    assert names == ["a/1.png", "a/b/2.jpg", "a/1.png", "3.png"]
    with pytest.raises(DataError, match="there is no image file"):
        list(find_images([tmp_path / "nowhere.png"]))
