import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from drpl.cleaning.apply import write
from drpl.cleaning.clean import Cleaning
from drpl.cleaning.correct import Correction
from drpl.cleaning.folder import ISSUES, CleanedFolder, read_table, write_about, write_issues
from drpl.cleaning.review.page import write_page
from drpl.errors import RunError
from tests.cleaning.test_apply import decide
from tests.support.cleaned import CLASSES, TIME, add_found, make

ODD = ("plain", "with, comma", 'with "quotes"', "two\nlines", "back\rto start", " ébène 木 ", "NA")


def test_what_clean_left_is_read(tmp_path: Path) -> None:
    made = make(tmp_path)
    cleaned = CleanedFolder.load(made.folder)
    assert cleaned.classes == CLASSES
    assert cleaned.root == made.photos
    assert len(cleaned.samples) == 40
    wrong = {i for i in range(40) if made.truth[i] != made.given[i]}
    assert set(cleaned.issues.index) == wrong
    assert list(cleaned.issues["p_noisy"]) == sorted(cleaned.issues["p_noisy"], reverse=True)


def test_a_folder_of_an_older_version_is_read(tmp_path: Path) -> None:
    """The column outlier_score was once called strangeness."""
    made = make(tmp_path)
    before = CleanedFolder.load(made.folder).issues
    path = made.folder / "issues.csv"
    path.write_text(path.read_text().replace("outlier_score", "strangeness", 1))
    pd.testing.assert_frame_equal(CleanedFolder.load(made.folder).issues, before)
    number = int(before.index[0])
    decide(made.folder, (number, "keep", ""))
    assert write_page(CleanedFolder.load(made.folder), tmp_path / "page.html", "Ann") == len(before)
    written = write(Correction.build(CleanedFolder.load(made.folder), 0.0), tmp_path / "out")
    assert written.trainable.exists()
    assert "outlier_score" in Cleaning(made.folder, {}).issues


def test_names_of_all_kinds_survive(tmp_path: Path) -> None:
    count = len(ODD)
    table = pd.DataFrame(
        {
            "id": range(count),
            "path": ODD,
            "given_label": ODD,
            "suggested_label": ODD[::-1],
            "p_noisy": 0.123456789,
            "confidence": 1.0,
            "verdict": "ambiguous",
            "outlier_score": 1.0,
            "near_given": "",
            "near_suggested": "0 1",
        }
    )
    write_issues(tmp_path, table)
    again = read_table(tmp_path / "issues.csv", ISSUES)
    assert tuple(again["path"]) == ODD
    assert tuple(again["suggested_label"]) == ODD[::-1]
    assert again["p_noisy"][0] == 0.123457


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("ash/tree.png", True),
        ("../secret.png", False),
        ("ash/../../secret.png", False),
        ("/etc/passwd", False),
        ("..", False),
    ],
)
def test_paths_stay_inside_the_data_set(tmp_path: Path, path: str, shown: bool) -> None:
    made = make(tmp_path)
    table = pd.read_csv(made.folder / "samples.csv")
    table.loc[7, "path"] = path
    table.to_csv(made.folder / "samples.csv", index=False)
    cleaned = CleanedFolder.load(made.folder)
    assert cleaned.image(7) == (made.photos / path if shown else None)
    assert cleaned.image(40) is None
    assert cleaned.image(-1) is None


def test_a_list_may_name_files_anywhere(tmp_path: Path) -> None:
    made = make(tmp_path)
    write_about(made.folder, "lists/mine.csv", tmp_path / "lists", CLASSES)
    cleaned = CleanedFolder.load(made.folder)
    assert cleaned.file("/photos/a.png") == Path("/photos/a.png")
    assert cleaned.file("../photos/a.png") == tmp_path / "lists/../photos/a.png"


def test_images_without_files_have_their_place(tmp_path: Path) -> None:
    made = make(tmp_path)
    write_about(made.folder, "digits", None, CLASSES)
    assert CleanedFolder.load(made.folder).image(3) == made.folder / "images" / "3.png"


def test_the_time_of_the_run(tmp_path: Path) -> None:
    made = make(tmp_path)
    path = made.folder / "data.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"time": TIME}))
    assert CleanedFolder.load(made.folder).time == TIME
    path.write_text(json.dumps(about))
    assert CleanedFolder.load(made.folder).time.endswith("Z")  # that of the issues' file


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("data.json", "{", "[", "damaged"),
        ("data.json", '"source"', '"sauce"', "source: field required"),
        ("data.json", '"ash"', "3", "should be a valid string"),
        ("data.json", '"source"', '"read": {"colour": 1}, "source"', "read.colour"),
        ("data.json", '"source"', '"read": {"limit": "all"}, "source"', "read.limit"),
        ("data.json", '"ash"', '"oak"', "'ash' is no class"),
        ("issues.csv", "verdict", "verdicts", "damaged"),
        ("issues.csv", "mislabelled", "misled", "verdict 'misled' is none of"),
        ("issues.csv", "0 ", "4000 ", "has no image '\\d*4000'"),
        ("samples.csv", "\n1,", "\n2,", "has image 2 twice"),
        ("samples.csv", "\n1,", "\none,", "damaged"),
        ("samples.csv", "\n1,", "\n99999999999999999999999,", "damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, file: str, old: str, new: str, sentence: str) -> None:
    made = make(tmp_path)
    path = made.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(RunError, match=sentence):
        CleanedFolder.load(made.folder)


@pytest.mark.parametrize("file", ["data.json", "issues.csv", "samples.csv"])
def test_what_is_missing_is_named(tmp_path: Path, file: str) -> None:
    made = make(tmp_path)
    (made.folder / file).unlink()
    with pytest.raises(RunError, match=f"{file}.*drpl clean"):
        CleanedFolder.load(made.folder)


def test_nobody_is_told_to_clean_into_their_photos(
    tmp_path: Path, mistake: Callable[..., str]
) -> None:
    (tmp_path / "my photos" / "ash").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "my photos" / "ash" / "0.png")
    Path("list.csv").write_text("path,label\n")
    Path("stopped").mkdir()
    plan = {"side": 8, "preset": "small", "settings": {}}
    Path("stopped/plan.json").write_text(json.dumps(plan))
    Path("stopped for now").mkdir()
    Path("stopped for now/plan.json").write_text(json.dumps(plan | {"budget": "2h"}))
    Path("nothing").mkdir()
    for words in (("apply",), ("review", "--summary")):
        told = mistake(*words, "my photos")
        assert "my photos is not a folder that `drpl clean` wrote; clean it first, " in told
        assert "with: drpl clean 'my photos' -o cleaned\n" in told
        assert "with: drpl clean list.csv -o cleaned\n" in mistake(*words, "list.csv")
        told = mistake(*words, "stopped")
        assert "stopped is not finished; go on with the same command" in told
        assert told.endswith("drpl clean DATA -o stopped\n")
        told = mistake(*words, "stopped for now")
        assert told.endswith(", drpl clean DATA -o 'stopped for now' --budget 2h\n")
        assert "there is no nowhere; name the folder that" in mistake(*words, "nowhere")
        assert "nothing has no data.json; name the folder that" in mistake(*words, "nothing")


def test_near_duplicates_and_outliers_are_read(tmp_path: Path) -> None:
    made = make(tmp_path)
    plain = CleanedFolder.load(made.folder)
    assert plain.duplicates.empty
    assert plain.outliers.empty
    assert plain.found == set()
    strange = add_found(made)
    cleaned = CleanedFolder.load(made.folder)
    assert cleaned.outliers.index.tolist() == strange
    assert len(cleaned.duplicates) == 4  # not that of two test images
    assert cleaned.list_paired("test") == {7: "held out.png"}
    assert cleaned.test_image(7) == made.photos / "held out.png"
    assert cleaned.test_image(8) is None
    for name, old, new in (
        ("duplicates.csv", "train,0,", "train,4000,"),
        ("outliers.csv", f"\n{strange[0]},", "\n4000,"),
    ):
        text = (made.folder / name).read_text()
        (made.folder / name).write_text(text.replace(old, new))
        with pytest.raises(RunError, match=f"{name}: samples.csv has no image 4000; clean again"):
            assert CleanedFolder.load(made.folder).found
        (made.folder / name).write_text(text)
