"""Names, files and contents that people do not expect; whatever is left out is said."""

import io
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drpl.analysis.doctor import examine
from drpl.data import decoding
from drpl.data.decoding import decode, load_thumbnail
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.conftest import Command
from tests.support.tiny import brief_options

pytestmark = pytest.mark.usefixtures("undrawn")

BRIEF = ["--method", "cross_entropy", *brief_options("cross_entropy")]
NOT_UTF8 = os.fsdecode(b"caf\xe9.png")


def draw(path: Path | str, shade: int, kind: str = "PNG") -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(shade).integers(shade, shade + 50, (9, 9), dtype=np.uint8)
    Image.fromarray(pixels).save(path, kind)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for k in range(4):
        draw(root / "ash" / f"{k}.png", k)
        draw(root / "elm" / f"{k}.png", 150 + k)
    return root


def test_names_of_every_kind(photos: Path, command: Command) -> None:
    draw(photos / "ash" / NOT_UTF8, 9)
    draw(photos / os.fsdecode(b"\xff") / "x.png", 10)
    draw(photos / "ash" / "two\nlines.png", 11)
    draw(photos / "elm" / ("ü" * 125 + ".png"), 160)  # of 254 bytes
    answer = command("train", "photos", "--out", "run", *BRIEF)
    assert answer.code == 0, answer.err
    assert "left out 2 files or folders whose names are not UTF-8" in answer.err
    assert "caf\\xe9.png" in answer.err
    listed = Path("run/samples.csv").read_text()
    assert '"ash/two\nlines.png"' in listed  # one cell
    assert f"elm/{'ü' * 125}.png" in listed
    examined = command("doctor", "photos", "--no-times")
    assert "left out 2 files or folders whose names are not UTF-8" in examined.out
    answer = command("predict", "run", "photos", "-o", "named.csv", "--quiet")
    assert answer.code == 0, answer.err
    assert "whose names are not UTF-8" in answer.err
    assert "two\nlines.png" in Path("named.csv").read_text()


def test_what_is_no_file_is_left_out(photos: Path, command: Command) -> None:
    """Pipes and devices used to be waited for for ever."""
    os.mkfifo(photos / "ash" / "pipe.png")
    (photos / "ash" / "zero.png").symlink_to("/dev/zero")
    (photos / "ash" / "itself.png").symlink_to("itself.png")
    (photos / "ash" / "gone.png").symlink_to("nowhere.png")
    (photos / "elm" / "up").symlink_to("..")
    (photos / "elm" / "notes.txt").touch()
    (photos / "elm" / "other.png").symlink_to(photos.parent / "other.png")
    draw(photos.parent / "other.png", 180)
    data = load("photos")
    assert len(data.train) == 9  # a link out of the folder is an image like the others
    assert data.notes == (
        "left out 4 pipes, devices or broken links that are named like images: "
        "ash/gone.png, ash/itself.png, ash/pipe.png, ...",
        "left out 1 file that is no image by its ending: elm/notes.txt",
        "left out 1 folder inside of a class folder that is a link: elm/up",
    )
    with pytest.raises(DataError, match="no file, but a folder, a pipe"):
        decoding.open_file(photos / "ash" / "pipe.png")
    answer = command("doctor", photos / "ash" / "pipe.png")
    assert answer.code == 2
    draw(photos / "elm" / "more.png", 90)  # with ten images it is enough
    answer = command("clean", "photos", "-o", "out", "--budget", "1s", "--features", "none", "-q")
    assert "pipes, devices or broken links" in answer.out


def test_a_snapshot_keeps_what_was_left_out(photos: Path, tmp_path: Path) -> None:
    (photos / "ash" / "notes.txt").touch()
    options = ReadOptions(hold="cache", cache=tmp_path / "cache")
    first, second = (load("photos", options).notes for _ in range(2))
    assert first == second
    assert first == ("left out 1 file that is no image by its ending: ash/notes.txt",)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_class_named_train_beside_others(photos: Path) -> None:
    """The others used to vanish without a word."""
    draw(photos / "train" / "0.png", 90)
    data = load("photos")
    assert data.train.classes == ("ash", "elm", "train")
    assert data.notes == ("the folder train is taken for a class",)
    for part in ("train", "test", "val"):
        draw(photos / part / "ash" / "1.png", 91)
        draw(photos / part / "elm" / "2.png", 92)
    data = load("photos")
    assert data.train.classes == ("ash", "elm")
    assert (len(data.train), len(data.test or ())) == (2, 2)
    assert "left out 3 folders beside train and test: val, ash, elm" in data.notes


def test_an_image_with_two_labels_or_in_both_parts_is_said(photos: Path, command: Command) -> None:
    for part in ("train", "test"):
        for name in ("ash", "elm"):
            (photos / part).mkdir(exist_ok=True)
            (photos / part / name).symlink_to(photos / name)
    data = load("photos")
    assert "8 test images are in the training part too: test/ash/0.png (ash)" in data.notes[-1]
    Path("list.csv").write_text(
        "path,label\nphotos/ash/0.png,ash\nphotos/ash/0.png,elm\nphotos/elm/0.png,elm\n"
    )
    sentence = "1 image is there twice under different labels: photos/ash/0.png (ash)"
    for options in (ReadOptions(), ReadOptions(lazy=True), ReadOptions(hold="files")):
        assert load("list.csv", options).notes[-1].startswith(sentence)
    assert command("doctor", "list.csv", "--no-times").out.count(sentence) == 1
    # Copies of a file, too, also where only their names have been read.
    (photos / "elm" / "copy.png").write_bytes((photos / "ash" / "0.png").read_bytes())
    shutil.rmtree(photos / "train")
    shutil.rmtree(photos / "test")
    copied = "1 image is there twice under different labels: ash/0.png (ash) = elm/copy.png (elm)"
    for options in (ReadOptions(), ReadOptions(lazy=True), ReadOptions(hold="files")):
        assert load("photos", options).notes == (copied,)
    assert sentence in command("train", "list.csv", "--out", "run", *BRIEF).err
    assert examine(load("digits", ReadOptions(limit=40))).warnings


def test_formats(photos: Path) -> None:
    draw(photos / "ash" / "a.jfif", 60, "JPEG")
    draw(photos / "ash" / "b.avif", 61, "AVIF")
    (photos / "ash" / "c.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    data = load("photos", ReadOptions(skip_broken=True))
    assert len(data.train) == 10
    assert "c.heic: HEIC needs the package pillow-heif" in data.notes[0]


def test_only_formats_of_photos_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An EPS named .png used to start Ghostscript."""
    monkeypatch.setattr("PIL.EpsImagePlugin.EpsImageFile.load", lambda *_: pytest.fail("opened"))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "x.png").write_bytes(eps)
    with pytest.raises(Exception, match="cannot identify"):
        decode(str(tmp_path / "x.png"), 8, 1)


def show(image: Image.Image, kind: str, **options: object) -> np.ndarray:
    """What is seen of an image that was saved so."""
    content = io.BytesIO()
    image.save(content, kind, **options)
    Path("shown").write_bytes(content.getvalue())
    return np.asarray(load_thumbnail("shown", 64))


RAMP = np.linspace(0, 1, 8 * 8).reshape(8, 8)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((RAMP * 65535).astype(np.uint16), "PNG"),
        ((RAMP * 65535).astype(np.uint16), "TIFF"),
        (RAMP.astype(np.float32), "TIFF"),
        ((RAMP * 255).astype(np.float32), "TIFF"),
        ((RAMP * 1e6).astype(np.float32), "TIFF"),
        ((RAMP * 2e9).astype(np.int32), "TIFF"),
    ],
)
def test_deep_images_are_seen_as_in_a_viewer(values: np.ndarray, kind: str) -> None:
    seen = show(Image.fromarray(values), kind)
    assert np.abs(seen.astype(float) - 255 * RAMP).max() <= 1


def test_floats_that_are_no_numbers() -> None:
    values = RAMP.astype(np.float32)
    values[0, :3] = np.nan, np.inf, -np.inf
    assert show(Image.fromarray(values), "TIFF").max() == 255


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_modes_are_seen_as_in_a_viewer() -> None:
    red = Image.new("RGB", (8, 8), (250, 10, 10))
    blue = Image.new("RGB", (8, 8), (10, 10, 250))
    for image, kind, options in (
        (red.convert("CMYK"), "JPEG", {"quality": 95}),
        (red.convert("P"), "PNG", {}),
        (red, "GIF", {"save_all": True, "append_images": [blue]}),
        (red, "WEBP", {"save_all": True, "append_images": [blue], "lossless": True}),
        (red.convert("YCbCr"), "JPEG", {"quality": 95}),
    ):
        assert np.abs(show(image, kind, **options).mean((0, 1)) - (250, 10, 10)).max() < 12
    tall = Image.new("L", (4, 8), 0)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    assert show(tall, "JPEG", exif=exif).shape == (4, 8)
    assert show(tall, "JPEG", exif=b"Exif\0\0" + b"MM\0*\0\0\0\x08\xff\xff").shape == (8, 4)


def test_few_pixels_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = decoding._Budget()
    inside, most, lock = 0, 0, threading.Lock()

    def work(pixels: int) -> None:
        nonlocal inside, most
        with budget.take(pixels):
            with lock:
                inside += pixels
                most = max(most, inside)
            time.sleep(0.005)
            with lock:
                inside -= pixels

    threads = [threading.Thread(target=work, args=(7_000_000 * (1 + k % 3),)) for k in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 20_000_000 < most <= decoding.AT_ONCE
    with budget.take(3 * decoding.AT_ONCE):  # alone
        assert budget.free == 0


def write_npz(path: str, **headers: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in headers.items():
            archive.writestr(f"{name}.npy", content)


def pack(values: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


def test_arrays_that_claim_more_than_they_hold(mistake: Callable[..., str]) -> None:
    x, y = pack(np.zeros((8, 6, 6), np.uint8)), pack(np.arange(8) % 2)
    claim = x.replace(b"(8, 6, 6), }" + b" " * 9, b"(8, 6, 6000000000), }")
    write_npz("claim.npz", x=claim, y=y)
    assert "an array should have" in mistake("doctor", "claim.npz")
    Path("claim.npy").write_bytes(x.replace(b"(8, 6, 6)", b"(9, 9, 9)"))
    assert "an array should have" in mistake("train", "digits", "--features", "claim.npy")


def test_archives_that_unpack_to_more_than_is_sensible(
    mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drpl.files.LARGE_ARCHIVE", 2**20)
    np.savez_compressed("bomb.npz", x=np.zeros((4000, 32, 32), np.uint8), y=np.arange(4000) % 2)
    assert "bytes would unpack to" in mistake("doctor", "bomb.npz")


@pytest.mark.parametrize("label", [2147483647, 10**12])
def test_a_label_that_is_far_out(mistake: Callable[..., str], label: int) -> None:
    """One of 2147483647 used to eat all memory."""
    np.savez("x.npz", x=np.zeros((8, 6, 6), np.uint8), y=np.array([0, 1, 2, 3, 4, 5, 6, label]))
    assert f"one of them is {label}" in mistake("doctor", "x.npz")


def test_arguments_that_are_not_utf8(command: Command) -> None:
    answer = command("doctor", NOT_UTF8)
    assert answer.code == 2
    assert "caf\\xe9.png is not UTF-8" in answer.err
