"""The same bytes from memory, from a cache and from files; broken files stop or are left out."""

import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.cached import CachedImages
from drpl.data.dataset import DatasetSplits
from drpl.data.holding import free_memory
from drpl.data.images import FileImages, TensorImages
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
        "cache": CachedImages,
        "files": FileImages,
    }
    again = read(photos, "auto")  # now out of the cache
    wanted = three_epochs(ways["memory"])
    assert len(wanted) == 9  # the last three images are too few for a batch
    assert all(three_epochs(data) == wanted for data in [*ways.values(), again])
    assert len({data.train.paths for data in ways.values()}) == 1
    assert len({(data.mean, data.std) for data in ways.values()}) == 1


def test_what_does_not_fit_is_cached(photos: Path) -> None:
    need = 24 * 3 * 32 * 32
    assert isinstance(read(photos, "auto", memory=need).train.images, TensorImages)
    assert isinstance(read(photos, "auto", memory=need - 1).train.images, CachedImages)
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
    with pytest.raises(DataError, match="31 of 31"):
        read(photos, "memory", skip_broken=True)


def test_a_class_without_a_readable_image(photos: Path) -> None:
    for path in (photos / "ash").rglob("*.jpg"):
        path.write_text("")
    with pytest.raises(DataError, match="no training image is labelled 'ash'"):
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
