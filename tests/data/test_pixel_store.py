"""The same bytes from memory, from a packed file and from image files; changes are noticed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data import pixel_store
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import FileImages, PackedImages, TensorImages
from drpl.data.pixel_store import _pack_names, _unpack_names, free_memory, suit_size
from drpl.data.readers import folder as folders
from drpl.data.readers.folder import folder
from drpl.data.sources import Hold, ReadOptions
from drpl.data.transforms import CropFlip, Normalise
from drpl.errors import DataError, StorageError
from drpl.training.feed import Feed
from tests.conftest import Command


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """JPEG files of odd sizes and modes, some turned, some in sub-folders."""
    draws = np.random.default_rng(1)
    for k in range(24):
        mode = ("RGB", "L", "CMYK")[k % 3]
        width, height = 17 + 23 * k, 300 - 11 * k
        corners = Image.fromarray(draws.integers(0, 256, (5, 7, 3), dtype=np.uint8))
        image = corners.resize((width, height), Image.Resampling.BICUBIC).convert(mode)
        exif = Image.Exif()
        exif[0x0112] = 1 + k % 8
        where = tmp_path / "photos" / ("ash", "birch")[k % 2] / ("deep" if k > 12 else ".")
        where.mkdir(parents=True, exist_ok=True)
        image.save(where / f"{k}.jpg", exif=exif, quality=80)
    return tmp_path / "photos"


def read(photos: Path, hold: Hold, **more: object) -> DatasetSplits:
    where = photos.parent / "cache"
    return folder(photos, ReadOptions(size=32, hold=hold, cache=where, **more))  # type: ignore[arg-type]


def three_epochs(data: DatasetSplits) -> list[bytes]:
    view = CropFlip(4, True, Normalise(data.mean, data.std, crop=0.75))
    return [
        x.numpy().tobytes()
        for epoch in (1, 2, 3)
        for x, _ in Feed(data.train.images, view, view, 7, epoch, (1, "s"), torch.device("cpu"))()
    ]


def test_all_ways_give_the_same_batches(photos: Path) -> None:
    ways = {way: read(photos, way) for way in get_args(Hold)}
    kinds = {way: type(data.train.images) for way, data in ways.items()}
    assert kinds == {
        "auto": TensorImages,
        "memory": TensorImages,
        "cache": PackedImages,
        "files": FileImages,
    }
    again = read(photos, "auto")  # now out of the cache
    wanted = three_epochs(ways["memory"])
    assert len(wanted) == 9  # the last three images are too few for a batch
    assert all(three_epochs(data) == wanted for data in [*ways.values(), again])
    assert len({data.train.paths for data in ways.values()}) == 1
    assert len({(data.mean, data.std) for data in ways.values()}) == 1


def test_size_suits_the_images() -> None:
    assert [suit_size([side]) for side in (5, 28, 33, 500)] == [8, 24, 32, 64]


def test_what_does_not_fit_is_cached(photos: Path) -> None:
    need = 24 * 3 * 32 * 32
    assert isinstance(read(photos, "auto", memory=need).train.images, TensorImages)
    assert isinstance(read(photos, "auto", memory=need - 1).train.images, PackedImages)
    assert 2**20 < free_memory() < 2**50
    with pytest.raises(DataError, match="unknown hold 'file'; did you mean 'files'"):
        ReadOptions(hold="file")  # type: ignore[arg-type]


def test_a_jpeg_decoded_small_looks_the_same(photos: Path) -> None:
    """Decoding at a fraction of the size stays close to shrinking the whole picture."""
    path = photos / "birch" / "deep" / "15.jpg"  # 362 x 135 pixels
    small = FileImages([path], 16, 3).load(torch.tensor([0]))[0].float()
    with Image.open(path) as file:
        upright = file.transpose(Image.Transpose.ROTATE_90)  # orientation 8
        whole = np.asarray(upright.resize((16, 16), Image.Resampling.HAMMING).convert("RGB"))
    wanted = torch.from_numpy(whole.copy()).permute(2, 0, 1).float()
    assert float((small - wanted).abs().mean()) < 4


def break_two(photos: Path) -> None:
    (photos / "ash" / "note.jpg").write_text("not a picture")
    whole = photos / "birch" / "1.jpg"
    whole.write_bytes(whole.read_bytes()[:700])


@pytest.mark.parametrize("way", get_args(Hold))
def test_broken_files_stop_a_run_or_are_left_out(photos: Path, way: Hold) -> None:
    break_two(photos)
    for _ in range(2):  # a cache remembers them
        with pytest.raises(
            DataError, match=r"2 of 25 images cannot be read .*--skip-broken"
        ) as stop:
            read(photos, way)
        assert "note.jpg: it is not an image" in str(stop.value)
        assert "1.jpg: image file is truncated" in str(stop.value)
    data = read(photos, way, skip_broken=True)
    assert len(data.train) == len(data.train.labels) == 23
    assert data.train.paths is not None
    assert len(data.train.paths) == 23
    assert not {"ash/note.jpg", "birch/1.jpg"} & set(data.train.paths)
    assert sorted(note.split(":")[0] for note in data.notes) == [
        f"left out {photos}/ash/note.jpg",
        f"left out {photos}/birch/1.jpg",
    ]
    last = data.train.images.load(torch.tensor([22]))
    assert torch.equal(
        last, FileImages([data.train.paths[22]], 32, 3, photos).load(torch.tensor([0]))
    )


def test_an_error_names_five_broken_files_and_their_number(photos: Path) -> None:
    for k in range(7):
        (photos / "ash" / f"x{k}.png").write_text("")
    with pytest.raises(DataError, match="7 of 31 images cannot be read") as stop:
        read(photos, "auto")
    assert str(stop.value).count(".png") == 5
    assert "; and 2 more)" in str(stop.value)
    for path in photos.rglob("*.jpg"):
        path.write_text("")
    with pytest.raises(DataError, match=r"31 of 31 .* for nothing else is there$"):
        read(photos, "memory", skip_broken=True)


def test_a_class_without_a_readable_image(photos: Path) -> None:
    for path in (photos / "ash").rglob("*.jpg"):
        path.write_text("")
    with pytest.raises(DataError, match=r"none of the \d+ images labelled 'ash' can be read"):
        read(photos, "files", skip_broken=True)


def test_a_file_that_vanishes_during_training(photos: Path) -> None:
    images = read(photos, "files").train.images
    (photos / "ash" / "0.jpg").unlink()
    with pytest.raises(DataError, match=r"cannot read image .*0\.jpg: .*No such file"):
        images.load(torch.arange(3))


def test_a_cache_that_cannot_be_written(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        read(photos, "cache")
    assert not [p for p in (photos.parent / "cache").iterdir() if p.suffix != ".lock"]


def test_the_command_line_leaves_out_broken_files(command: Command, photos: Path) -> None:
    break_two(photos)
    words = ["detect", photos, "--method", "cross_entropy", "--size", 8, "--hold", "cache"]
    words += ["--cache", "kept", "--out", "run", "--set", "schedule.epochs=1", "--set", "width=4"]
    assert "2 of 25 images cannot be read" in command(*words).err
    answer = command(*words, "--skip-broken")
    assert answer.code == 0
    assert "note: left out" in answer.err
    assert len(Path("run/samples.csv").read_text().splitlines()) == 24
    assert '"left out' in Path("run/result.json").read_text()
    assert len(list(Path("kept").glob("*.images"))) == 1


# A packed file is used when it is whole and up to date, and made again otherwise.


@pytest.fixture
def greys(tmp_path: Path) -> Path:
    """Twelve pictures of two classes, each of one grey."""
    for k in range(12):
        path = tmp_path / "greys" / "ab"[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 9), 20 * k, np.uint8)).save(path)
    return tmp_path / "greys"


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


def read_packed(greys: Path) -> Dataset:
    train = folder(greys, ReadOptions(hold="cache", cache=greys.parent / "cache")).train
    assert isinstance(train.images, PackedImages)
    return train


def values(data: Dataset) -> list[int]:
    return data.images.load(torch.arange(len(data)))[:, 0, 0, 0].tolist()


ORDER = [0, 200, 40, 80, 120, 160, 20, 220, 60, 100, 140, 180]  # 0.png, 10.png, 2.png, ...


def test_a_cache_is_made_once(greys: Path, decoded: list[int]) -> None:
    assert values(read_packed(greys)) == ORDER
    assert decoded == list(range(12))
    assert values(read_packed(greys)) == ORDER
    assert len(decoded) == 12


def change(greys: Path) -> None:
    Image.fromarray(np.full((9, 9), 7, np.uint8)).save(greys / "a" / "0.png")


def touch(greys: Path) -> None:
    os.utime(greys / "a" / "0.png", ns=(1, time.time_ns() + 10**9))


def remove(greys: Path) -> None:
    (greys / "b" / "9.png").unlink()


def rename(greys: Path) -> None:
    (greys / "b" / "9.png").rename(greys / "b" / "99.png")


@pytest.mark.parametrize("edit", [change, touch, remove, rename])
def test_a_changed_folder_is_cached_anew(
    greys: Path, decoded: list[int], edit: Callable[[Path], None]
) -> None:
    before = read_packed(greys)
    edit(greys)
    after = read_packed(greys)
    assert len(decoded) == 12 + len(after)
    assert values(after)[0] == (7 if edit is change else 0)
    assert values(before) == ORDER  # a run that goes on keeps what it opened
    assert len(list((greys.parent / "cache").glob("*.images"))) == 1


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
    greys: Path, decoded: list[int], tear: Callable[[bytes], bytes]
) -> None:
    read_packed(greys)
    (path,) = (greys.parent / "cache").glob("*.images")
    path.write_bytes(tear(path.read_bytes()))
    assert values(read_packed(greys)) == ORDER
    assert len(decoded) == 24


def test_a_killed_build_leaves_nothing_that_is_used(greys: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from drpl.data import images; from drpl.data.sources import ReadOptions\n"
        "from drpl.data.readers.folder import folder\n"
        "def dying(*_): yield from list(every(*_)); os._exit(9)\n"
        "every = images.FileImages.attempt_all; images.FileImages.attempt_all = dying\n"
        "folder(sys.argv[1], ReadOptions(hold='cache', cache=Path(sys.argv[2])))"
    )
    words = [sys.executable, "-c", script, str(greys), str(greys.parent / "cache")]
    assert subprocess.run(words).returncode == 9
    assert [p.suffix for p in (greys.parent / "cache").glob(".*")] == [".partial"]
    assert values(read_packed(greys)) == ORDER
    assert not list((greys.parent / "cache").glob("*.partial"))


def test_processes_that_start_together_make_one_cache(greys: Path) -> None:
    script = (
        "import sys, torch; from pathlib import Path\n"
        "from drpl.data.sources import ReadOptions; from drpl.data.readers.folder import folder\n"
        "reading = ReadOptions(hold='cache', cache=Path(sys.argv[2]))\n"
        "images = folder(sys.argv[1], reading).train.images\n"
        "print(images.load(torch.arange(12))[:, 0, 0, 0].tolist())"
    )
    words = [sys.executable, "-c", script, str(greys), str(greys.parent / "cache")]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate()[0].strip() for one in running] == [str(ORDER)] * 2


def test_a_cache_that_is_cut_while_in_use(greys: Path) -> None:
    data = read_packed(greys)
    (path,) = (greys.parent / "cache").glob("*.images")
    os.truncate(path, 100)
    with pytest.raises(DataError, match="ends before image 5; delete it and run again"):
        data.images.load(torch.tensor([0, 5]))


# A packed folder is opened without looking at each file.


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """Two classes, one with a folder in its folder, and a test part; names of all kinds."""
    for k, name in enumerate(
        ("train/a/ä ö.png", "train/a/in/1.png", "train/b/2.png", "test/a/3.png")
    ):
        path = tmp_path / "nested" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 20 * k, np.uint8)).save(path)
    return tmp_path / "nested"


def read_nested(nested: Path, **more: object) -> DatasetSplits:
    read_options = {"hold": "cache", "cache": nested.parent / "cache"} | more
    return folder(nested, ReadOptions(**read_options))  # type: ignore[arg-type]


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, listing a folder is an error."""

    def no(*_: object) -> None:
        raise AssertionError("the folder was listed")

    return lambda: monkeypatch.setattr(folders, "list_labelled", no)


def test_the_second_time_no_folder_is_listed(nested: Path, unlisted: Callable[[], None]) -> None:
    first = read_nested(nested)
    unlisted()
    second = read_nested(nested)
    for one, other in ((first.train, second.train), (first.test, second.test)):
        assert one is not None
        assert other is not None
        assert list(one.paths or ()) == list(other.paths or ())
        assert torch.equal(one.labels, other.labels)
        index = torch.arange(len(one))
        assert torch.equal(one.images.load(index), other.images.load(index))
    assert (first.name, first.mean, first.std) == (second.name, second.mean, second.std)
    assert first.train.classes == second.train.classes


def test_added_and_removed_files_are_noticed(nested: Path) -> None:
    read_nested(nested)
    Image.fromarray(np.full((8, 8), 99, np.uint8)).save(nested / "train" / "a" / "in" / "9.png")
    assert len(read_nested(nested).train) == 4
    (nested / "train" / "a" / "in" / "9.png").unlink()
    assert len(read_nested(nested).train) == 3


def grey(path: Path, value: int) -> None:
    """Overwrite a picture in place: its folder does not change."""
    Image.fromarray(np.full((8, 8), value, np.uint8)).save(path.parents[3] / "new.png")
    path.write_bytes((path.parents[3] / "new.png").read_bytes())
    (path.parents[3] / "new.png").unlink()
    os.utime(path, ns=(time.time_ns(), time.time_ns() + 10**9))


def test_few_overwritten_files_are_noticed_at_once(nested: Path) -> None:
    read_nested(nested)
    grey(nested / "train" / "b" / "2.png", 200)
    assert read_nested(nested).train.images.load(torch.tensor([2])).unique().tolist() == [200]


def test_one_of_many_overwritten_files_is_noticed_when_it_is_read(
    nested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixel_store, "FEW", 0)
    read_nested(nested)
    changed = nested / "train" / "b" / "2.png"
    grey(changed, 200)
    stale = read_nested(nested)
    assert stale.test is not None
    assert stale.test.images.load(torch.tensor([0])).unique().tolist() == [60]
    for _ in range(2):  # other files can be read, before and after
        assert stale.train.images.load(torch.tensor([0])).unique().tolist() == [20]
        with pytest.raises(DataError, match=r"train/b/2\.png has changed since .*; run again"):
            stale.train.select(torch.tensor([2, 1])).images.load(torch.tensor([0]))
    assert read_nested(nested).train.images.load(torch.tensor([2])).unique().tolist() == [200]


def test_each_of_many_files_is_compared_once(nested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixel_store, "FEW", 0)
    read_nested(nested)
    images = read_nested(nested).train.images
    whole = images.load(torch.arange(3))
    (nested / "train" / "b" / "2.png").unlink()
    assert torch.equal(images.load(torch.arange(3)), whole)  # a run that goes on keeps what it read


def test_a_damaged_snapshot_and_a_missing_cache_are_made_again(nested: Path) -> None:
    read_nested(nested)
    (kept,) = (nested.parent / "cache").glob("*.snapshot.npz")
    for content in (b"", b"PK", kept.read_bytes()[:-40]):
        kept.write_bytes(content)
        assert len(read_nested(nested).train) == 3
    for cache in (nested.parent / "cache").glob("*test*.images"):
        cache.unlink()
    assert len(read_nested(nested).test or ()) == 1


def test_what_fits_into_memory_goes_there(nested: Path) -> None:
    read_nested(nested)
    assert not isinstance(read_nested(nested, hold="auto").train.images, PackedImages)
    kept = read_nested(nested, hold="auto", memory=1).train.images
    assert isinstance(kept, PackedImages)


def test_names_of_all_kinds_are_kept() -> None:
    names = ("a", "", "ü b", "c\udcff", "two\nlines")
    assert _unpack_names(_pack_names(names)) == names
