"""A folder belongs to the data that it was made of; others are refused, and nothing is touched."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.dataset import DatasetSplits
from drpl.data.images import FileImages, TensorImages, identify, resize, select
from drpl.data.sources import Hold, ReadOptions, load
from drpl.errors import RunError
from drpl.noise.confusion import Confusion
from drpl.runs.execute import execute, train
from drpl.runs.experiment import Execution, Experiment
from tests.conftest import Command
from tests.support.killing import Killed
from tests.support.tiny import brief_options, brief_settings, tiny_network

BRIEF = ["--method", "cross_entropy", "--quiet", *brief_options("cross_entropy")]


def make_photos(root: Path, each: int = 6, seed: int = 1, side: int = 8) -> Path:
    draws = np.random.default_rng(seed)
    for name, low in (("ash", 0), ("elm", 120)):
        (root / name).mkdir(parents=True, exist_ok=True)
        for k in range(each):
            pixels = draws.integers(low, low + 120, (side, side), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{k}.bmp")
    return root


def list_contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, which are no results."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return make_photos(tmp_path / "photos")


def test_the_confusion_matrix_is_named_with_its_digest(tiny: DatasetSplits, tmp_path: Path) -> None:
    file = tmp_path / "alike.npz"
    short: dict[str, Any] = {"settings": brief_settings("cross_entropy"), "quiet": True}
    Confusion(torch.full((3, 3), 1 / 3), tiny.train.classes).write(file)
    noisy = short | {"noise": "nonuniform:0.3", "confusion": file}
    run = train(tiny, method="cross_entropy", out=tmp_path / "run", **noisy)
    made = json.loads((run.folder / "provenance.json").read_text())
    assert made["confusion"] == str(file.resolve())
    assert made["confusion_digest"] == hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    plain = train(tiny, method="cross_entropy", out=tmp_path / "plain", **short)
    assert json.loads((plain.folder / "provenance.json").read_text())["confusion_digest"] is None


def test_precision_is_written_only_where_it_is_asked_for(tiny: DatasetSplits) -> None:
    """So that folders of earlier versions stay what they were."""
    texts = [
        Experiment.build(tiny, method="cross_entropy", settings=settings).toml
        for settings in ({}, {"full_precision": False}, {"full_precision": True})
    ]
    assert texts[0] == texts[1]
    assert "precision" not in texts[0]
    assert "full_precision = true" in texts[2]


def test_another_image_is_another_experiment(
    photos: Path, command: Command, mistake: Callable[..., str]
) -> None:
    words = ("train", "photos", "--out", "run", *BRIEF)
    assert command(*words).code == 0
    before = list_contents(Path("run"))
    assert command(*words).code == 0
    state = (photos / "ash" / "0.bmp").stat()
    Image.new("L", (8, 8), 200).save(photos / "ash" / "0.bmp")
    os.utime(photos / "ash" / "0.bmp", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (photos / "ash" / "0.bmp").stat().st_size == state.st_size  # only its content tells
    assert "was made of other training images" in mistake(*words)
    assert list_contents(Path("run")) == before


def test_size_labels_and_test_set_count(
    photos: Path, command: Command, mistake: Callable[..., str]
) -> None:
    for part in ("train", "test"):
        shutil.copytree("photos", f"parts/{part}")
    words = ("train", "parts", "--out", "run", *BRIEF)
    assert command(*words).code == 0
    refusal = mistake(*words, "--size", 4)
    assert "was made with shape 1 x 8 x 8, but 1 x 4 x 4 was asked for" in refusal
    assert "samples 12, but 4" in mistake(*words, "--limit", 4)
    Image.new("L", (8, 8)).save("parts/test/elm/0.bmp")
    assert "was made of another test set" in mistake(*words)


def test_a_copy_is_the_same_data(photos: Path, command: Command) -> None:
    words = ("train", "photos", "--out", "run", *BRIEF)
    assert command(*words).code == 0
    result = Path("run/result.json").read_bytes()
    shutil.move("photos", "aside")
    shutil.copytree("aside", "photos", copy_function=shutil.copyfile)  # with other times
    assert command(*words).code == 0
    assert Path("run/result.json").read_bytes() == result


def test_a_killed_run_does_not_go_on_with_other_images(tiny: DatasetSplits, tmp_path: Path) -> None:
    """It used to end as a mixture of two data sets."""
    settings = brief_settings("cross_entropy", 2)

    def go_on(data: DatasetSplits, *, kill: bool = False) -> None:
        def die(*_: object) -> None:
            raise Killed

        experiment = Experiment.build(
            data, method="cross_entropy", settings=settings, network=tiny_network
        )
        stop = die if kill else None
        execute(experiment, Execution(tmp_path / "run", quiet=True, on_epoch=stop))

    with pytest.raises(Killed):
        go_on(tiny, kill=True)
    turned = TensorImages(tiny.train.images.load(torch.arange(72)).flip(3))
    with pytest.raises(RunError, match="was made of other training images"):
        go_on(replace(tiny, train=replace(tiny.train, images=turned)))
    with pytest.raises(RunError, match="was made with shape 1 x 8 x 8, but 1 x 4 x 4"):
        go_on(tiny.resize(4))
    go_on(tiny)


def test_an_older_folder_says_what_is_not_known(
    tiny: DatasetSplits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(settings: int) -> None:
        train(tiny, method="cross_entropy", settings=brief_settings("cross_entropy", settings),
              out=tmp_path / "run", network=tiny_network)  # fmt: skip

    run(1)
    config = tmp_path / "run" / "config.toml"
    lines = config.read_text().splitlines(keepends=True)
    old = [line for line in lines if line.split(" ")[0] not in ("images", "test", "shape")]
    assert len(old) == len(lines) - 3
    config.write_text("".join(old))
    capsys.readouterr()
    run(1)
    assert "not known" not in capsys.readouterr().err  # it is finished
    (tmp_path / "run" / "result.json").unlink()
    run(1)
    assert "whether these are the same is not known" in capsys.readouterr().err


def test_a_digest_does_not_depend_on_where_pixels_are(photos: Path, tmp_path: Path) -> None:
    kept = ReadOptions(cache=tmp_path / "cache")
    options = [replace(kept, hold=way) for way in get_args(Hold)] + [replace(kept, memory=0)]
    ways = [load(str(photos), one).train for one in options]
    index = torch.tensor([3, 1, 7])
    assert len({identify(one.images) for one in ways}) == 1
    assert len({identify(select(one.images, index)) for one in ways}) == 1
    assert len({identify(resize(one.select(index).images, 4)) for one in ways}) == 1
    assert identify(select(ways[0].images, index)) != identify(select(ways[0].images, index + 1))


def test_many_files_are_told_apart_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By names, sizes and times of all, and what is in some."""
    monkeypatch.setattr("drpl.data.file_states.MANY", 10)
    make_photos(tmp_path, each=300)
    names = [f"{name}/{k}.bmp" for name in ("ash", "elm") for k in range(300)]

    def read() -> str:
        return identify(FileImages(names, 8, 1, tmp_path))

    before = read()
    assert read() == before
    os.utime(tmp_path / "elm" / "77.bmp", ns=(0, 0))
    after = read()
    assert after != before
    state = (tmp_path / names[0]).stat()
    Image.new("L", (8, 8), 3).save(tmp_path / names[0])
    os.utime(tmp_path / names[0], ns=(state.st_atime_ns, state.st_mtime_ns))
    assert read() != after


@pytest.mark.parametrize("out", ["photos", "photos/out"])
def test_nothing_is_written_among_the_data(
    photos: Path, mistake: Callable[..., str], out: str
) -> None:
    before = sorted(photos.rglob("*"))
    asked = [
        ("clean", "photos", "-o", out),
        ("train", "photos", "--out", out, *BRIEF),
        ("noise", "photos", "--noise", "uniform:0.2", "-o", out),
        ("encode", "photos", "-o", f"{out}/x.npz"),
        ("compare", "photos", "--methods", "mixup", "-o", out),
        ("doctor", "photos", "--features", "lite0", "-o", out),
        ("confusion", "photos", "-o", f"{out}/confusion.npz"),
    ]
    for words in asked:
        assert "is inside the data set photos" in mistake(*words)
    assert sorted(photos.rglob("*")) == before


@pytest.mark.parametrize("out", ["photos", "photos/out"])
def test_nothing_that_shows_a_run_is_written_among_its_data(
    photos: Path, command: Command, mistake: Callable[..., str], out: str
) -> None:
    """Figures in a folder among the photos would be a class the next time."""
    assert command("train", "photos", "--out", "run", *BRIEF).code == 0
    before = sorted(photos.rglob("*"))
    for words in (
        ("look", "run", "-o", out),
        ("look", "run", "--data", "photos", "-o", out),
        ("probe", "run", "--target", "photos", "-o", out),
        ("figures", "run", "-o", out),
        ("report", "run", "-o", f"{out}/report.html"),
    ):
        assert "is inside the data set" in mistake(*words)
    assert sorted(photos.rglob("*")) == before


def test_another_confusion_matrix_in_the_same_file_is_another_experiment(
    command: Command, mistake: Callable[..., str]
) -> None:
    classes = tuple("0123456789")
    alike = Confusion(torch.full((10, 10), 0.1), classes)
    alike.write(Path("alike.npz"))
    noise = ("--noise", "nonuniform:0.4", "--confusion", "alike.npz")
    words = ("train", "digits", "--limit", 60, *noise, "--out", "run", *BRIEF)
    assert command(*words).code == 0
    before = list_contents(Path("run"))
    assert command(*words).code == 0
    Confusion(torch.eye(10) + torch.eye(10).roll(1, 1), classes).write(Path("alike.npz"))
    assert "was made of other labels" in mistake(*words)
    assert list_contents(Path("run")) == before
