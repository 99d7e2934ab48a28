import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drpl.analysis.doctor import examine
from drpl.cli.data import _advise_cleaning
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions
from drpl.runs.display import duration
from tests.conftest import Command


def test_a_folder_with_everything_wrong(command: Command, tmp_path: Path) -> None:
    draws = np.random.default_rng(3)
    for part in ("train", "test"):
        for name in ("ash", "birch"):
            (tmp_path / "photos" / part / name).mkdir(parents=True)
            for k in range(3):
                pixels = draws.integers(0, 255, (9 + k, 12, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / part / name / f"{k}.png")
    train = tmp_path / "photos" / "train"
    same = (train / "ash" / "0.png").read_bytes()
    (train / "birch" / "twin.png").write_bytes(same)
    (train / "ash" / "copy.png").write_bytes((train / "ash" / "1.png").read_bytes())
    (tmp_path / "photos" / "test" / "ash" / "leak.png").write_bytes(same)
    (train / "ash" / "broken.jpg").write_text("no image")
    Image.new("L", (40, 10)).save(train / "birch" / "grey.png")
    answer = command("doctor", "photos", "--no-times")
    assert answer.code == 0
    for words in (
        "10 x 9",
        "9 in 2 classes: ash 4, birch 5",
        "1 image is there twice under different labels: train/ash/0.png (ash) = train/birch/twin",
        "1 image is an exact copy of another with the same label",
        "1 test image is in the training part too: test/ash/leak.png (ash)",
        "2 classes have fewer than 20 images: ash, birch",
        "broken.jpg",
        "PNG RGB",
        "PNG L",
    ):
        assert words in answer.out.replace("12 x 9 to 40 x 11", "10 x 9"), words


def write_photos(where: Path, sound: tuple[str, ...], *, broken: str = "", empty: str = "") -> None:
    """Three small images for each sound class; three files that are none for a broken one."""
    for k, name in enumerate((*sound, *filter(None, (broken, empty)))):
        (where / name).mkdir(parents=True)
        for n in range(0 if name == empty else 3):
            pixels = np.full((9, 9, 3), 50 * k + n, np.uint8)
            Image.fromarray(pixels).save(where / name / f"{n}.png")
            if name == broken:
                (where / name / f"{n}.png").write_text("no image")


def test_classes_without_images_are_reported(command: Command, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", ("ash", "birch"), broken="cedar", empty="dogwood")
    answer = command("doctor", "photos")
    assert answer.code == 0, answer.err
    told = "or read the other classes only (--classes), as is done here\n"
    for words in (
        "6 in 2 classes: ash 3, birch 3\n",
        f"warning: there are no images in photos/dogwood; add some, remove the folder, {told}",
        f"warning: none of the 3 images labelled 'cedar' can be read; mend them, {told}",
        "with: drpl clean photos -o cleaned --classes ash,birch\n",
    ):
        assert words in answer.out


def test_the_next_command_reads_the_classes_that_are_left(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with commas or quotes were taken for others, and 999 names filled the screen."""
    names = ("a, b", 'a "big" one', "cat")
    write_photos(tmp_path / "photos", names, empty="x")
    answer = command("doctor", "photos")
    assert "left out 1 class that was not chosen: x" in answer.out
    *_, last = answer.out.splitlines()
    again = last.partition(": drpl clean ")[2]
    assert again == """photos -o cleaned --classes '"a ""big"" one","a, b",cat'"""
    data, _, _, *read = shlex.split(again)
    assert command("doctor", data, *read).out.splitlines()[-1] == last
    monkeypatch.setattr("drpl.cli.data.MOST_NAMED", 2)
    *_, last = command("doctor", data).out.splitlines()
    assert last.startswith(
        "mend or remove the classes without images, or name the other 3 with --classes; then "
    )
    assert last.endswith(": drpl clean photos -o cleaned")
    assert command("doctor", data, *read).out.splitlines()[-1].endswith(again)  # as was asked for


@pytest.mark.parametrize(
    ("data", "read", "kept"),
    [
        ("my pets", "--depth 2 --size 8 --limit 20 --hold files --cache 'a b'", ""),
        ("my pets", r"--label-pattern '/(?P<label>[a-z]+) [0-9]'", ""),
        ("my pets", r"--depth 2 --outside 'site b/dog' --outside 'site b/cat'", ""),
        ("my pets", "--depth 2 --skip-broken --mirrored", "--depth 2"),
        ("list.csv", """--path-column "the file's" --label-column 'what $it is'""", ""),
        ("list.csv", "--label-column x --path-column \"the file's\" --label-separator ''", ""),
    ],
)
def test_the_next_command_reads_the_same(
    command: Command, tmp_path: Path, data: str, read: str, kept: str
) -> None:
    """It left out how the data were to be read: `clean` took the folders above for the classes."""
    rows = ["the file's;what $it is;x"]
    for k, (site, name) in enumerate(product(("site a", "site b"), ("cat", "dog"))):
        where = tmp_path / "my pets" / site / name
        where.mkdir(parents=True)
        for n in range(5):
            pixels = np.full((9, 9, 3), 40 * k + n, np.uint8)
            Image.fromarray(pixels).save(where / f"{name} {n}.png")
            rows.append(f"my pets/{site}/{name}/{name} {n}.png;{name};{name}{n % 2}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    again = command("doctor", data, *shlex.split(read)).out.splitlines()[-1].partition(": drpl ")[2]
    words = shlex.split(again)
    assert words[:4] == ["clean", data, "-o", "cleaned"]
    wanted = shlex.split(kept or read)
    assert sorted(words[4:]) == sorted(wanted)
    told = [command("doctor", data, *options).out for options in (wanted, words[4:])]
    assert told[0] == told[1]
    answer = command(*words, "--features", "none", "--quiet", "--budget", "1s", "--device", "cpux")
    assert answer.code == 2
    assert "cpux" in answer.err  # everything else was read, and found right


def test_what_features_are_for_is_not_repeated() -> None:
    """`clean` chooses by what to see images; the labels are what must stay."""
    read = ReadOptions(features="lite0", mirrored=True, size=224, depth=3, download=True)
    assert _advise_cleaning("x", read, ()).endswith(": drpl clean x -o cleaned --depth 3")


def test_the_next_command_writes_into_a_folder_of_its_own(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside of the data it proposed a folder in these, and elsewhere one that is other data's."""
    write_photos(tmp_path / "photos", ("cat", "dog"))
    (tmp_path / "cleaned").mkdir()
    assert command("doctor", "photos").out.endswith(": drpl clean photos -o cleaned-2\n")
    for inside, data in ((".", "./"), (".", "."), ("cat", "..")):  # ./ was said to be no folder
        monkeypatch.chdir(tmp_path / "photos" / inside)
        _, _, again = command("doctor", data).out.rpartition(": drpl clean ")
        assert (Path.cwd() / shlex.split(again)[2]).resolve() == tmp_path / "cleaned-2"
        told = command("review", data, "--summary").err.rpartition(" -o ")[2]
        assert told == again.partition(" -o ")[2]


def test_classes_that_are_deeper_are_pointed_out(command: Command, tmp_path: Path) -> None:
    """Two sites with the same classes were taken for two classes, and nothing was said of it."""
    for site in ("a", "b"):
        write_photos(tmp_path / "photos" / site, ("cat", "dog"))
    said = command("doctor", "photos").out
    assert "in 2 classes: a 6, b 6" in said
    first = "warning: every image is in a folder inside of its class's, as a/cat; if these 4 are "
    assert f"{first}the classes, read them with --depth 2\n" in said
    assert "warning: these folders have 2 names: cat, dog; if the names are the classes, " in said
    pattern = said.partition("with --label-pattern ")[2].splitlines()[0]
    said = command("doctor", "photos", *shlex.split(f"--label-pattern {pattern}")).out
    assert "in 2 classes: cat 6, dog 6\n" in said
    assert "every image is" not in said
    assert "every image is" not in command("doctor", "photos", "--depth", "2").out
    write_photos(tmp_path / "photos" / "c", ("elk",))
    (tmp_path / "photos" / "c" / "elk" / "0.png").rename(tmp_path / "photos" / "c" / "0.png")
    assert "every image is" not in command("doctor", "photos").out


@pytest.mark.parametrize("read", [(), ("--classes", "dog,cat")])
def test_what_is_broken_is_named_where_one_class_is_left(
    mistake: Callable[..., str], tmp_path: Path, read: tuple[str, ...]
) -> None:
    """It said that one class was found only, and not what had become of the other."""
    write_photos(tmp_path / "photos", ("cat",), broken="dog")
    told = "error: none of the 3 images labelled 'dog' can be read; mend them\n"
    assert mistake("doctor", "photos", *read) == told
    (tmp_path / "photos" / "elk").mkdir()
    said = mistake("doctor", "photos")
    assert said.startswith("error: there are no images in photos/elk; add some, ")
    assert said.endswith(told.removeprefix("error:"))
    write_photos(tmp_path / "pets", ("cat",), empty="dog")
    for words in ("doctor", "train"):
        told = mistake(words, "pets")
        assert told == "error: there are no images in pets/dog; add some\n"


def test_what_is_broken_is_named_where_too_little_is_left_beside_an_outside(
    mistake: Callable[..., str], tmp_path: Path
) -> None:
    write_photos(tmp_path / "photos", ("cat", "dog"), empty="elk")
    for name in ("dog", "elk"):
        assert "no images in photos/elk" in mistake("doctor", "photos", "--outside", name)


def test_a_sound_set_and_its_times(tiny: DatasetSplits) -> None:
    found = examine(tiny, presets=["small", "digits"])
    assert not [warning for warning in found.warnings if "copies" not in warning]
    text = str(found)
    assert "72 in 3 classes: top 24, left 24, middle 24" in text
    assert "8 x 8 pixels, grey" in text
    assert list(found.plans) == ["small", "digits"]
    assert "165 epochs" in text


def test_vectors_without_a_test_part_and_uneven_classes() -> None:
    x = np.random.default_rng(1).normal(size=(60, 4))
    data = arrays(x, [0] * 57 + [1] * 3)
    text = str(examine(data))
    assert "vectors of 4" in text
    assert "'1' has 3 images, '0' 57" in text
    assert "there is no test part" in text
    outside = replace(data, outside=data.train)
    assert "outside" in str(examine(outside))


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (600, "10 min"), (36_000, "10 h"), (864_000, "10 days")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
