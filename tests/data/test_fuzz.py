"""Damaged and malicious files: each is refused in a sentence or read; none runs anything."""

import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drpl.data.readers.cifar_n import read_human_labels
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import (
    make_cifar10,
    make_human,
    make_idx,
    make_imagenet,
    make_pictures,
    make_webvision,
)

ROUNDS = 45


def mutated(content: bytes, draws: random.Random) -> bytes:
    """A few bytes changed, taken out, doubled, or cut off."""
    data = bytearray(content)
    head = min(len(data), 400)  # where formats say most
    for _ in range(draws.randint(1, 4)):
        at = draws.randrange(draws.choice([head, len(data)]) or 1)
        match draws.randrange(6):
            case 0:
                data[at : at + 1] = draws.randbytes(1)
            case 1:
                del data[at : at + draws.randint(1, 9)]
            case 2:
                data[at:at] = data[at : at + draws.randint(1, 40)]
            case 3:
                data[at : at + 4] = b"\xff\xff\xff\x7f"
            case 4:
                data[at:at] = draws.randbytes(draws.randint(1, 5))
            case 5:
                del data[draws.randrange(len(data) + 1) :]
    return bytes(data)


def cifar(home: Path) -> tuple[Path, Callable[[], object]]:
    make_cifar10(home, batches=1)
    return home / "data_batch_1", lambda: load(str(home))


def meta(home: Path) -> tuple[Path, Callable[[], object]]:
    make_cifar10(home, batches=1)
    return home / "batches.meta", lambda: load(str(home))


def imagenet(home: Path) -> tuple[Path, Callable[[], object]]:
    make_imagenet(home, list(range(1, 41)), batches=1)
    (home / "ids.txt").write_text("3 4 5")
    read_options = ReadOptions(data_dir=home)
    return home / "val_data", lambda: load(f"imagenet32:ids={home / 'ids.txt'}", read_options)


def human(home: Path) -> tuple[Path, Callable[[], object]]:
    labels = np.arange(50) % 10
    path = make_human(home / "x.pt", clean_label=labels, worse_label=labels)
    return path, lambda: read_human_labels(path)


def idx(home: Path) -> tuple[Path, Callable[[], object]]:
    make_idx(home)
    return home / "train-images-idx3-ubyte", lambda: load(str(home))


def packed_idx(home: Path) -> tuple[Path, Callable[[], object]]:
    make_idx(home, packed=True)
    return home / "train-labels-idx1-ubyte.gz", lambda: load(str(home))


def listing(home: Path) -> tuple[Path, Callable[[], object]]:
    make_pictures(home, ["1.png", "2.png"])
    (home / "x.csv").write_text("path,label,split\n" + "1.png,a,train\n2.png,b,train\n" * 4)
    return home / "x.csv", lambda: load(str(home / "x.csv"))


def webvision(home: Path) -> tuple[Path, Callable[[], object]]:
    make_webvision(home)
    return home / "info" / "train_filelist_google.txt", lambda: load(str(home))


def picture(home: Path, suffix: str) -> tuple[Path, Callable[[], object]]:
    pixels = np.random.default_rng(1).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    for name in ("a", "b"):
        (home / name).mkdir(parents=True)
        Image.fromarray(pixels).save(home / name / f"x{suffix}")
    return home / "a" / f"x{suffix}", lambda: load(str(home), ReadOptions(hold="memory"))


def jpeg(home: Path) -> tuple[Path, Callable[[], object]]:
    return picture(home, ".jpg")


def png(home: Path) -> tuple[Path, Callable[[], object]]:
    return picture(home, ".png")


def webp(home: Path) -> tuple[Path, Callable[[], object]]:
    return picture(home, ".webp")


def npz(home: Path) -> tuple[Path, Callable[[], object]]:
    home.mkdir()
    np.savez(home / "x.npz", x=np.zeros((8, 6, 6), np.uint8), y=np.arange(8) % 2)
    return home / "x.npz", lambda: load(str(home / "x.npz"))


SOURCES = [cifar, meta, imagenet, human, idx, packed_idx, listing, webvision, jpeg, png, webp, npz]


@pytest.mark.parametrize("make", SOURCES)
def test_damaged_files(
    tmp_path: Path, make: Callable[[Path], tuple[Path, Callable[[], object]]]
) -> None:
    path, read = make(tmp_path / "home")
    content, draws = path.read_bytes(), random.Random(make.__name__)
    refusals: list[str] = []
    read()
    for _ in range(ROUNDS):
        path.write_bytes(mutated(content, draws))
        began = time.monotonic()
        try:
            read()
        except DataError as error:
            refusals.append(str(error))
        assert time.monotonic() - began < 5
    assert len(refusals) > ROUNDS // 4
    assert not any("\n" in sentence for sentence in refusals)


CALLS = (
    b"cos\nsystem\n(S'touch RAN'\ntR.",
    b'cbuiltins\nexec\n(S\'open("RAN", "w")\'\ntR.',
    b'c__builtin__\neval\n(S\'open("RAN", "w")\'\ntR.',
    b"(S'touch RAN'\nios\nsystem\n.",
    b"(cos\nsystem\nS'touch RAN'\no.",
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x09touch RAN\x85R.",
    b"\x80\x02cbuiltins\nopen\n(S'RAN'\nS'w'\nt\x81.",
    b"csubprocess\ncall\n((lp0\nS'touch'\naS'RAN'\natR.",
    b"cnumpy\nload\n(S'RAN'\ntR.",
    b"cnumpy.core.multiarray\nfromfile\n(S'RAN'\ntR.",
    b"cnumpy\nndarray.__class__\n.",
    b"c_codecs\nencode.__globals__\n.",
    b"\x80\x04\x8c\x05numpy\x8c\x13ndarray.__init__.__\x93.",
    b"\x82\x01.",
    b"P1\n.",
    b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",
    b"cnumpy\ndtype\n(S'V99999999999'\nI0\nI1\ntR.",
    b"cdrpl.data.pickles\nread_pickle\n(S'RAN'\ntR.",
)


@pytest.mark.parametrize("call", CALLS)
def test_malicious_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    make_cifar10(tmp_path / "home", batches=1)
    inside = b"}S'data'\n" + call.removeprefix(b"\x80\x04").removeprefix(b"\x80\x02")[:-1] + b"s."
    for content in (call, inside):
        (tmp_path / "home" / "data_batch_1").write_bytes(content)
        with pytest.raises(DataError):
            load(str(tmp_path / "home"))
    assert not (tmp_path / "RAN").exists()


def test_arrays_that_claim_more_than_they_hold(tmp_path: Path) -> None:
    make_cifar10(tmp_path, batches=1)
    content = pickle.dumps({"data": np.zeros((2, 12), np.uint8), "labels": [0, 1]}, 2)
    for shape in (b"J\xff\xff\xff\x7f", b"J\xfe\xff\xff\xff", b"N", b"G" + bytes(8)):
        (tmp_path / "data_batch_1").write_bytes(content.replace(b"K\x02K\x0c", shape + b"K\x0c"))
        with pytest.raises(DataError, match="damaged"):
            load(str(tmp_path))
