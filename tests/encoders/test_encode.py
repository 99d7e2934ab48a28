"""Images to vectors: what is encoded, what is stored, and what cannot be read."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import drpl.encoders.encode as encoding
from drpl.cleaning.folder import CleanedFolder
from drpl.data.dataset import DatasetSplits
from drpl.data.images import Images, TensorImages
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load
from drpl.encoders.encode import encode, write_features
from drpl.encoders.encoder import Encoder
from drpl.encoders.store import StoredVectors
from drpl.errors import DataError, StorageError
from drpl.files import read_arrays
from tests.conftest import Command
from tests.support.encoders import CUT_OFF, SLOWED, draw_folder, finish, start, write_model

Mistake = Callable[..., str]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call of an encoder was given."""
    counts: list[int] = []
    run = Encoder.encode

    def count(self: Encoder, pixels: torch.Tensor) -> torch.Tensor:
        counts.append(len(pixels))
        return run(self, pixels)

    monkeypatch.setattr(Encoder, "encode", count)
    return counts


@pytest.fixture
def options(tmp_path: Path) -> ReadOptions:
    return ReadOptions(cache=tmp_path / "cache")


def every(images: Images) -> torch.Tensor:
    return images.load(torch.arange(len(images)))


def vectors(data: DatasetSplits) -> torch.Tensor:
    return every(data.train.images)


def test_each_image_has_the_vector_of_its_own_pixels(
    photos: Path, lite0: Encoder, converted: Path, tmp_path: Path
) -> None:
    shutil.copytree(converted, tmp_path / "cache")
    data = encode(str(photos), size=64, read_options=ReadOptions(cache=tmp_path / "cache"))
    pixels = every(load(str(photos), ReadOptions(size=64, hold="files")).train.images)
    assert torch.allclose(vectors(data), lite0.encode(pixels), atol=0.01, rtol=1e-3)
    assert data.encoding is not None
    assert data.encoding.encoder == "lite0"
    assert (data.encoding.size, data.encoding.mirrored) == (64, False)
    assert data.train.paths == tuple(
        str(p.relative_to(photos)) for p in sorted(photos.rglob("*.png"))
    )
    assert np.allclose(data.mean, vectors(data).mean(0), atol=1e-4)


def test_what_was_encoded_is_not_encoded_again(
    photos: Path, tiny_model: str, options: ReadOptions, seen: list[int]
) -> None:
    first = encode(str(photos), tiny_model, read_options=options)
    assert seen == [20]
    again = encode(str(photos), tiny_model, read_options=options)
    assert torch.equal(vectors(first), vectors(again))
    assert seen == [20]
    # One file changes and one is new; the others keep their rows.
    Image.new("RGB", (5, 5), (255, 0, 0)).save(photos / "ash" / "00004.png")
    Image.new("RGB", (5, 5), (0, 0, 255)).save(photos / "birch" / "last.png")
    changed = vectors(encode(str(photos), tiny_model, read_options=options))
    assert seen == [20, 2]
    same = [i for i in range(20) if i != 2]
    assert torch.equal(changed[same], vectors(first)[same])
    assert changed[2, 0] > changed[2, 2]
    assert changed[20, 0] < changed[20, 2]


def test_data_sets_of_the_same_files_share_their_rows(
    photos: Path, tiny_model: str, options: ReadOptions, seen: list[int], tmp_path: Path
) -> None:
    encode(str(photos), tiny_model, read_options=options)
    listed = [f"photos/{p.parent.name}/{p.name},{p.parent.name}" for p in photos.rglob("*.png")]
    (tmp_path / "some.csv").write_text("\n".join(["path,label", *listed[:15]]) + "\n")
    assert len(encode(str(tmp_path / "some.csv"), tiny_model, read_options=options).train) == 15
    assert seen == [20]


def test_a_store_that_was_deleted_is_made_again(
    photos: Path, tiny_model: str, options: ReadOptions, seen: list[int], tmp_path: Path
) -> None:
    first = vectors(encode(str(photos), tiny_model, read_options=options))
    shutil.rmtree(tmp_path / "cache")
    assert torch.equal(vectors(encode(str(photos), tiny_model, read_options=options)), first)
    assert seen == [20, 20]


def test_mirrored_vectors_are_means(tmp_path: Path, options: ReadOptions, seen: list[int]) -> None:
    left = (("ReduceMean", {"axes": [1, 2], "keepdims": 0}),)  # a number for each column
    model = f"onnx:{write_model(tmp_path / 'columns.onnx', nodes=left)}"
    photos = str(draw_folder(tmp_path / "photos", 6))
    plain = vectors(encode(photos, model, read_options=options))
    mirrored = encode(photos, model, mirrored=True, read_options=options)
    assert seen == [6, 6]  # the plain half is there already
    assert torch.allclose(vectors(mirrored), (plain + plain.flip(1)) / 2, atol=2e-3)
    assert not torch.allclose(plain, plain.flip(1), atol=0.1)
    assert mirrored.encoding is not None
    assert mirrored.encoding.mirrored


def test_images_in_arrays_are_encoded_too(tiny_model: str, options: ReadOptions) -> None:
    draws = np.random.default_rng(1)
    x = draws.integers(0, 256, (8, 10, 10), dtype=np.uint8)
    x[5] = x[2]  # one is there twice
    data = arrays(x, np.arange(8) % 2, x[:3], np.arange(3) % 2)
    made = encode(data, tiny_model, read_options=options)
    found = vectors(made)
    assert found.shape == (8, 3)
    assert torch.equal(found[5], found[2])
    assert made.test is not None
    assert torch.equal(every(made.test.images), found[:3])
    with pytest.raises(DataError, match="arrays holds vectors; there are no images to encode"):
        encode(made, tiny_model, read_options=options)


def test_vectors_stay_on_disk_where_memory_is_short(
    photos: Path, tiny_model: str, tmp_path: Path
) -> None:
    held, stored = (
        encode(str(photos), tiny_model, read_options=ReadOptions(cache=tmp_path / "c", memory=m))
        for m in (None, 0)
    )
    assert isinstance(held.train.images, TensorImages)
    assert isinstance(stored.train.images, StoredVectors)
    assert torch.equal(vectors(held), vectors(stored))


def test_progress_counts_all_images(photos: Path, tiny_model: str, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    follow = ReadOptions(cache=tmp_path / "c", progress=lambda *at: calls.append(at))
    encode(str(photos), tiny_model, read_options=follow)
    encode(str(photos), tiny_model, read_options=follow)
    assert calls[-1] == (20, 20)
    assert all(total == 20 and done <= 20 for done, total in calls)


ODD: dict[str, Callable[[Path], None]] = {
    "grey": lambda p: Image.new("L", (9, 7), 100).save(p),
    "alpha": lambda p: Image.new("RGBA", (9, 7), (255, 0, 0, 128)).save(p),
    "palette": lambda p: Image.new("RGB", (9, 7), (0, 200, 0)).quantize(4).save(p),
    "one pixel": lambda p: Image.new("RGB", (1, 1), (0, 0, 200)).save(p),
    "16 bits": lambda p: Image.fromarray(np.full((7, 9), 30_000, np.uint16)).save(p),
    "one bit": lambda p: Image.new("1", (9, 7), 1).save(p),
}
LOOKS = {  # red, green and blue
    "grey": (100, 100, 100),
    "alpha": (255, 127, 127),
    "palette": (0, 200, 0),
    "one pixel": (0, 0, 200),
    "16 bits": (117, 117, 117),
    "one bit": (255, 255, 255),
}


def test_images_of_all_kinds(tmp_path: Path, options: ReadOptions) -> None:
    model = f"onnx:{write_model(tmp_path / 'colours.onnx', kind=2)}"  # 2: uint8
    for name, save in ODD.items():
        for kind in ("a", "b"):
            (tmp_path / "odd" / kind).mkdir(parents=True, exist_ok=True)
            save(tmp_path / "odd" / kind / f"{name}.png")
    data = encode(str(tmp_path / "odd"), model, read_options=options)
    assert data.train.paths is not None
    for path, vector in zip(data.train.paths, vectors(data), strict=True):
        assert torch.allclose(vector, torch.tensor(LOOKS[Path(path).stem]).float(), atol=2), path


def test_broken_files_are_named_or_left_out(
    photos: Path, tiny_model: str, command: Command, mistake: Mistake
) -> None:
    (photos / "ash" / "torn.png").write_bytes((photos / "ash" / "00002.png").read_bytes()[:40])
    (photos / "birch" / "text.png").write_text("no picture")
    words = ("encode", photos, "-o", "out.npz", "--encoder", tiny_model, "--quiet")
    said = mistake(*words)
    assert "2 of 22 images cannot be read" in said
    assert "torn.png" in said
    assert "text.png: it is not an image that can be read" in said
    assert not Path("out.npz").exists()
    answer = command(*words[:-1], "--skip-broken")
    assert answer.code == 0
    assert "note: left out " in answer.err
    found = read_arrays(Path("out.npz"))
    assert found["x"].shape == (20, 3)
    assert not any("torn" in path for path in found["paths"])


def test_a_broken_file_that_is_listed_twice(photos: Path, tiny_model: str, tmp_path: Path) -> None:
    (photos / "ash" / "text.png").write_text("no picture")
    lines = ["path,label", *["photos/ash/text.png,a"] * 2, "photos/ash/00000.png,a"]
    (tmp_path / "list.csv").write_text("\n".join([*lines, "photos/birch/00001.png,b"]))
    options = ReadOptions(cache=tmp_path / "c", skip_broken=True)
    data = encode(str(tmp_path / "list.csv"), tiny_model, read_options=options)
    assert vectors(data).shape == (2, 3)
    assert len(data.notes) == 2


def test_a_class_of_which_nothing_can_be_read(
    photos: Path, tiny_model: str, tmp_path: Path
) -> None:
    for path in (photos / "ash").iterdir():
        path.write_text("no picture")
    options = ReadOptions(cache=tmp_path / "c", skip_broken=True)
    with pytest.raises(DataError, match="ash"):
        encode(str(photos), tiny_model, read_options=options)


@pytest.mark.parametrize("skip", [False, True])
def test_a_folder_that_vanishes_meanwhile(
    tmp_path: Path, tiny_model: str, monkeypatch: pytest.MonkeyPatch, seen: list[int], skip: bool
) -> None:
    """That is no broken file, and what was done is kept."""
    monkeypatch.setattr(encoding, "PART", 10)
    photos = draw_folder(tmp_path / "photos", 100)
    away = tmp_path / "away"

    def vanish(done: int, total: int) -> None:
        if done >= 20 and photos.is_dir():
            photos.rename(away)

    lost = ReadOptions(cache=tmp_path / "c", skip_broken=skip, progress=vanish)
    with pytest.raises(DataError, match=r"photos/(ash|birch) is no longer there; what was encoded"):
        encode(str(photos), tiny_model, read_options=lost)
    before = sum(seen)
    assert 20 <= before < 100
    away.rename(photos)
    encode(str(photos), tiny_model, read_options=ReadOptions(cache=tmp_path / "c"))
    assert sum(seen) == 100


def test_a_store_that_cannot_be_written(photos: Path, tiny_model: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder should be")
    with pytest.raises(StorageError, match=r"cannot write .*file/features"):
        encode(str(photos), tiny_model, read_options=ReadOptions(cache=tmp_path / "file"))


def test_a_store_without_permission(
    photos: Path, tiny_model: str, mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the administrator one may write everywhere, so the refusal is made up."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    words = ("encode", photos, "-o", "x.npz", "--encoder", tiny_model, "--quiet")
    assert ".keys: Permission denied; choose another folder, or have this one opened" in mistake(
        *words
    )
    assert not Path("x.npz").exists()


def test_files_that_drpl_train_takes(photos: Path, tiny_model: str, command: Command) -> None:
    words = ("encode", photos, "--encoder", tiny_model, "--quiet")
    answer = command(*words, "-o", "x.npz")
    assert "wrote x.npz: 20 vectors of 3; train with: drpl train x.npz" in answer.out
    found = read_arrays(Path("x.npz"))
    assert sorted(found) == ["classes", "encoding", "paths", "x", "y"]
    assert found["x"].dtype == np.float16
    assert found["paths"][0] == str(photos / "ash" / "00000.png")
    data = load("x.npz")
    assert data.encoding is not None
    assert data.encoding.encoder == tiny_model
    assert data.train.pictures is not None
    assert data.train.pictures.load(torch.tensor([0])).shape == (1, 3, 64, 64)
    short = ("--method", "cross_entropy", "--set", "schedule.epochs=1", "--quiet")
    assert command("train", "x.npz", "--out", "run", *short).code == 0
    answer = command(*words, "-o", "x.npy")
    assert f"train with: drpl train {photos} --features x.npy" in answer.out
    assert np.array_equal(np.load("x.npy"), found["x"])
    deep = ("--label-pattern", "(ash|birch)", "--skip-broken")
    answer = command(*words, "-o", "deep.npy", *deep)
    assert " --features deep.npy --skip-broken --label-pattern '(ash|birch)'\n" in answer.out
    assert command("train", photos, "--features", "x.npy", "--out", "other", *short).code == 0


def test_both_parts_are_written(tmp_path: Path, tiny_model: str, options: ReadOptions) -> None:
    draw_folder(tmp_path / "photos" / "train", 8)
    draw_folder(tmp_path / "photos" / "test", 4)
    made = encode(str(tmp_path / "photos"), tiny_model, read_options=options)
    write_features(made, tmp_path / "x.npz")
    test = load(str(tmp_path / "x.npz")).test
    assert test is not None
    assert made.test is not None
    assert torch.equal(every(test.images), every(made.test.images))
    assert list(test.paths or ()) == [
        str(tmp_path / "photos" / path) for path in made.test.paths or ()
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-o", "x.csv"), "x.csv should end in .npz, or in .npy for the vectors alone"),
        (("-o", "x.npz", "--encoder", "lit0"), "did you mean 'lite0'?"),
        (("-o", "x.npz", "--encoder", "onnx:none.onnx"), "there is no ONNX file none.onnx"),
        (("-o", "x.npz", "--encoder", "own.npz"), "there is no file of features own.npz"),
        (("-o", "x.npz", "--encoder", "onnx:two.onnx"), "two.onnx has 2 inputs (x0, other1)"),
        (("-o", "x.npz", "--encoder", "onnx:text.onnx"), "text.onnx: onnxruntime cannot run this"),
        (("-o", "x.npz", "--encoder", "rows.npy"), "x has 3 rows, but there are 20 images"),
        (("-o", "x.npz", "--encoder", "nan.npy"), "1 rows of x hold NaN or infinity"),
    ],
)
def test_mistakes_at_the_command_line(
    photos: Path, mistake: Mistake, words: tuple[str, ...], sentence: str
) -> None:
    write_model(photos.parent / "two.onnx", inputs=2)
    (photos.parent / "text.onnx").write_text("no model")
    for name, count, bad in (("rows", 3, 0.0), ("nan", 20, np.nan)):
        features = np.zeros((count, 4))
        features[2, 1] = bad
        np.save(photos.parent / f"{name}.npy", features)
    assert sentence in mistake("encode", photos, *words)
    assert not Path("x.npz").exists()


@pytest.mark.slow
def test_nothing_is_fetched(photos: Path, converted: Path, tmp_path: Path) -> None:
    """In a process that cannot connect to anything images are encoded and cleaned.

    A review then shows the pictures whose features were judged.
    """
    words = ("clean", photos, "-o", "cleaned", "--features", "lite0", "--size", 64)
    more = ("--cache", converted, "--budget", "1s", "--repeats", 1, "--quiet")
    finish(start(CUT_OFF, *words, *more, where=tmp_path))
    cleaned = CleanedFolder.load(tmp_path / "cleaned")
    shown = [cleaned.image(number) for number in range(20)]
    assert shown == sorted(photos.rglob("*.png"))


def kill_and_restart(command: Command, where: Path, kills: int, images: int, seed: int) -> None:
    """Killed at random moments and begun again, it writes the same bytes."""
    draw_folder(where / "photos", images)
    write_model(where / "tiny.onnx")
    words = ("encode", "photos", "--encoder", "onnx:tiny.onnx", "--mirrored", "--quiet")
    assert command(*words, "--cache", "other", "-o", "whole.npz").code == 0
    draws, kept = random.Random(seed), 0
    for moment in sorted(draws.uniform(0.1, 0.9) for _ in range(kills)):
        process = start(SLOWED, 32, 0.01, *words, "--cache", "cache", "-o", "x.npz", where=where)
        while process.poll() is None and count_keys(where / "cache") < moment * images:
            time.sleep(0.001)
        time.sleep(draws.uniform(0, 0.01))
        process.kill()
        process.communicate()
        assert not (where / "x.npz").exists()
        assert count_keys(where / "cache") >= kept
        kept = count_keys(where / "cache")
    assert command(*words, "--cache", "cache", "-o", "x.npz").code == 0
    assert (where / "x.npz").read_bytes() == (where / "whole.npz").read_bytes()
    assert 0 < kept < images


def count_keys(cache: Path) -> int:
    """Vectors that a store holds."""
    return max((p.stat().st_size // 16 for p in (cache / "features").glob("*.keys")), default=0)


def test_killed_twice(command: Command, tmp_path: Path) -> None:
    kill_and_restart(command, tmp_path, kills=2, images=300, seed=1)


@pytest.mark.slow
def test_killed_ten_times(command: Command, tmp_path: Path) -> None:
    kill_and_restart(command, tmp_path, kills=10, images=3000, seed=2)


def test_two_processes_share_their_work(tmp_path: Path) -> None:
    """They wait for each other; each image is encoded once."""
    draw_folder(tmp_path / "photos", 100)
    write_model(tmp_path / "tiny.onnx")
    words = ("encode", "photos", "--encoder", "onnx:tiny.onnx", "--quiet", "-o")
    both = [start(SLOWED, 10, 0.01, *words, f"{k}.npz", where=tmp_path) for k in range(2)]
    for process in both:
        finish(process)
    assert (tmp_path / "0.npz").read_bytes() == (tmp_path / "1.npz").read_bytes()
    assert count_keys(tmp_path / ".drpl-cache") == 100


MEASURED = """
import resource, sys
from drpl.__main__ import main
sys.argv = ["drpl", *sys.argv[1:]]
try:
    main()
finally:
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def measure_peak(where: Path, images: int) -> int:
    """Megabytes that encoding takes at most."""
    draw_folder(where / str(images), images)
    write_model(where / "long.onnx", nodes=[("Flatten", {})])  # vectors of 768 numbers
    words = ("encode", images, "--encoder", "onnx:long.onnx", "--quiet", "-o", f"{images}.npz")
    return int(finish(start(MEASURED, *words, where=where)).split()[-1])


@pytest.mark.slow
def test_memory_hardly_grows_with_the_images(tmp_path: Path) -> None:
    few, many = (measure_peak(tmp_path, images) for images in (200, 2000))
    assert many - few < 60  # parts that are read ahead are smaller in the first place


@pytest.mark.slow
def test_memory_hardly_grows_with_very_many_images(tmp_path: Path) -> None:
    few, many = (measure_peak(tmp_path, images) for images in (1000, 50_000))
    assert many - few < 100  # as float32 in memory the vectors alone would be 150
