"""Features on disk."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.data.images import ComposedImages, FileImages, TensorImages
from drpl.encoders.store import KEY, FeatureStore, StoredVectors, make_keys
from drpl.errors import DataError, StorageError
from tests.support.encoders import draw_folder

DIM = 4
SIZE = 2 * DIM  # bytes of a row


def name(k: int) -> bytes:
    return k.to_bytes(KEY, "little")


def vectors(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32).view(-1, 1).expand(-1, DIM)


def fill(folder: Path, *numbers: int) -> FeatureStore:
    """A store to which vectors were added, each under its own number."""
    store = FeatureStore(folder, "tiny", DIM)
    with store.locked():
        store.add([name(k) for k in numbers], vectors(*numbers))
    return store


def read(store: FeatureStore, *numbers: int) -> list[float]:
    rows = store.find([name(k) for k in numbers])
    found = StoredVectors([(store.rows_path, rows)], DIM).load(torch.arange(len(numbers)))
    return found[:, 0].tolist()


def test_rows_are_found_by_their_keys(tmp_path: Path) -> None:
    fill(tmp_path, 5, 7, 9)
    store = fill(tmp_path, 7, 11)  # of which one is there
    assert store.find([name(11), name(3), name(5)]).tolist() == [3, -1, 0]
    assert read(store, 11, 7, 9, 9) == [11, 7, 9, 9]
    assert (tmp_path / "tiny.rows").stat().st_size == 4 * SIZE


@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        (b"half a", b""),  # killed while rows were written
        (bytes(2 * SIZE), b""),  # between rows and keys
        (bytes(2 * SIZE), b"half a key"),  # while keys were written
        (bytes(2 * SIZE), name(20) + b"half"),
        (b"", name(21) * 1),  # no order that a kill leaves, but a full disk might
    ],
)
def test_a_kill_loses_the_last_part_and_nothing_else(
    tmp_path: Path, rows: bytes, keys: bytes
) -> None:
    fill(tmp_path, 1, 2, 3)
    for ending, garbage in (("rows", rows), ("keys", keys)):
        with (tmp_path / f"tiny.{ending}").open("ab") as file:
            file.write(garbage)
    store = fill(tmp_path, 4, 5)
    assert read(store, 1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
    assert read(FeatureStore(tmp_path, "tiny", DIM), 5, 1) == [5, 1]


@pytest.mark.parametrize("cut", [1, SIZE, SIZE + 3])
def test_rows_that_are_cut_off_are_lost_alone(tmp_path: Path, cut: int) -> None:
    fill(tmp_path, 1, 2, 3)
    os.truncate(tmp_path / "tiny.rows", 3 * SIZE - cut)
    left = 3 - -(-cut // SIZE)
    store = FeatureStore(tmp_path, "tiny", DIM)
    assert (store.find([name(k) for k in (1, 2, 3)]) >= 0).sum() == left
    assert read(fill(tmp_path, 1, 2, 3), 1, 2, 3) == [1, 2, 3]


def test_two_share_what_each_has_added(tmp_path: Path) -> None:
    one, other = (FeatureStore(tmp_path, "tiny", DIM) for _ in range(2))
    with one.locked():
        one.add([name(1)], vectors(1))
    with other.locked():
        other.add([name(1), name(2)], vectors(100, 2))
    assert read(other, 1, 2) == [1, 2]
    with one.locked():
        pass
    assert read(one, 2, 1) == [2, 1]


def test_a_damaged_list_of_keys(tmp_path: Path) -> None:
    fill(tmp_path, 1, 2)
    (tmp_path / "tiny.keys").write_bytes(name(1) * 2)
    with pytest.raises(DataError, match=r"tiny\.keys is damaged: it has a key twice; delete it"):
        FeatureStore(tmp_path, "tiny", DIM)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder should be")
    with pytest.raises(StorageError, match=r"cannot write .*tiny\.keys: "):
        FeatureStore(tmp_path / "file", "tiny", DIM)


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(tmp_path, 1)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left on device; free some"), store.locked():
        store.add([name(2)], vectors(2))
    monkeypatch.undo()
    assert read(fill(tmp_path, 2), 1, 2) == [1, 2]


def test_rows_that_vanish_while_they_are_read(tmp_path: Path) -> None:
    store = fill(tmp_path, 1, 2)
    found = StoredVectors([(store.rows_path, np.array([0, 1]))], DIM)
    os.truncate(store.rows_path, SIZE)
    with pytest.raises(DataError, match=r"tiny\.rows was cut short while it was read; run again"):
        found.load(torch.arange(2))


def test_vectors_of_two_stores_are_averaged(tmp_path: Path) -> None:
    one = fill(tmp_path / "a", 2, 4)
    other = fill(tmp_path / "b", 10, 20)
    sources = [(one.rows_path, np.array([1, 0])), (other.rows_path, np.array([0, 1]))]
    assert StoredVectors(sources, DIM).load(torch.tensor([0, 1]))[:, 0].tolist() == [7, 11]


def test_keys_tell_files_apart_by_place_size_and_time(tmp_path: Path) -> None:
    draw_folder(tmp_path, 4, ("ash",))
    names = [f"ash/{k:05}.png" for k in range(4)]
    images = FileImages(names, 8, 3, tmp_path)
    every = torch.arange(4)
    keys = make_keys(images, every)
    assert len(set(keys)) == 4
    assert {len(key) for key in keys} == {KEY}
    # The same file by another name of its folder, in another order, in another size.
    (tmp_path / "link").symlink_to(tmp_path)
    other = ComposedImages([FileImages(names, 99, 1, tmp_path / "link")], torch.tensor([2, 0]))
    assert make_keys(other, torch.arange(2)) == [keys[2], keys[0]]
    os.utime(tmp_path / names[1], ns=(1, 1))
    assert [a == b for a, b in zip(make_keys(images, every), keys, strict=True)] == [
        *(True, False, True, True)
    ]


def test_keys_of_pixels_are_those_of_what_they_show() -> None:
    draws = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (3, 3, 4, 4), generator=draws, dtype=torch.uint8)
    first = make_keys(TensorImages(pixels), torch.arange(3))
    again = make_keys(TensorImages(pixels.flip(0)), torch.arange(3))
    assert first == again[::-1]
    grey = make_keys(TensorImages(pixels.view(3, 1, 6, 8)), torch.arange(3))
    assert len({*first, *grey}) == 6
