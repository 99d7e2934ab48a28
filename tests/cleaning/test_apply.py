import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from drpl.cleaning.apply import write
from drpl.cleaning.correct import Correction
from drpl.cleaning.folder import CleanedFolder, write_about
from drpl.cleaning.review.decision_log import DecisionLog, make_decision
from drpl.data.sources import load
from drpl.errors import DataError, DrplError
from tests.cli.test_cli import FAST, Mistake
from tests.conftest import Command
from tests.support.cleaned import CLASSES, Made, make, rows, write_run
from tests.support.datasets import make_cifar10

pytestmark = pytest.mark.usefixtures("undrawn")


def decide(folder: Path, *wanted: tuple[int, str, str], who: str = "Ann") -> CleanedFolder:
    cleaned = CleanedFolder.load(folder)
    with DecisionLog(cleaned) as log:
        for number, action, label in wanted:
            log.add(make_decision(cleaned, number, action, label, who))
    return cleaned


def state(out: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file with its time and what it holds or leads to."""
    found = {}
    for path in sorted(out.rglob("*")):
        content = (
            str(path.readlink())
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b""
        )
        found[str(path.relative_to(out))] = (path.lstat().st_mtime_ns, content)
    return found


@pytest.fixture
def photos(tmp_path: Path) -> Made:
    return make(tmp_path, 60)


def some(folder: Path) -> list[int]:
    """An image of each kind of decision, and one that nobody decides on."""
    issues = CleanedFolder.load(folder).issues
    wrong = issues[issues["verdict"] == "mislabelled"].index.tolist()
    return [*wrong[:3], issues[issues["verdict"] == "outside"].index[0], wrong[3]]


def expected(made: Made, chosen: list[int]) -> dict[int, str]:
    """Accept the first, keep the second, another class for the third, drop the fourth."""
    samples = made.samples
    labels = dict(samples["given_label"])
    labels[chosen[0]] = samples.at[chosen[0], "suggested_label"]
    labels[chosen[2]] = other(made, chosen[2])
    del labels[chosen[3]]
    return labels


def other(made: Made, number: int) -> str:
    row = made.samples.loc[number]
    return next(name for name in CLASSES if name not in (row.given_label, row.suggested_label))


def all_four(made: Made) -> tuple[CleanedFolder, list[int]]:
    a, b, c, d, e = some(made.folder)
    cleaned = decide(
        made.folder,
        (a, "accept", ""),
        (b, "keep", ""),
        (c, "relabel", other(made, c)),
        (d, "outside", ""),
        (e, "outside", ""),
        (e, "undo", ""),
    )
    return cleaned, [a, b, c, d, e]


def test_the_list_has_the_decided_labels(photos: Made, command: Command) -> None:
    cleaned, chosen = all_four(photos)
    before = state(photos.photos)
    answer = command("apply", photos.folder, "-o", "out")
    assert answer.code == 0, answer.err
    assert "59 images, 2 with a new label, 1 dropped" in answer.out
    listed = rows(Path("out/labels.csv"))
    wanted = expected(photos, chosen)
    assert list(listed[0]) == ["path", "label"]
    assert {row["path"]: row["label"] for row in listed} == {
        str(photos.photos / photos.samples.at[number, "path"]): label
        for number, label in wanted.items()
    }
    dropped = rows(Path("out/dropped.csv"))
    assert [int(row["id"]) for row in dropped] == [chosen[3]]
    audit = {int(row["id"]): row for row in rows(Path("out/audit.csv"))}
    assert sorted(audit) == sorted([chosen[0], chosen[2], chosen[3]])
    change = audit[chosen[0]]
    issue = cleaned.issues.loc[chosen[0]]
    assert (change["from"], change["to"]) == (issue.given_label, issue.suggested_label)
    assert change["who"] == "Ann"
    assert change["path"] == photos.samples.at[chosen[0], "path"]
    evidence = f"p_noisy {issue.p_noisy:.2f}, confidence {issue.confidence:.2f}"
    assert change["why"] == f"accepted suggestion, {evidence}"
    assert audit[chosen[3]]["to"] == ""
    assert state(photos.photos) == before  # the originals are as they were
    data = load("out/labels.csv")
    assert data.train.classes == tuple(sorted(CLASSES))
    assert len(data.train) == 59
    assert data.train.paths is not None
    names = [data.train.classes[i] for i in data.train.labels.tolist()]
    assert names == list(wanted.values())


def test_the_corrected_list_trains(photos: Made, command: Command) -> None:
    all_four(photos)
    command("apply", photos.folder, "-o", "out")
    answer = command("train", "out/labels.csv", "--method", "cross_entropy", "--out", "run",
                     "--set", "schedule.epochs=1", "--set", "schedule.rates=[[1, 0.1]]",
                     "--set", "width=4", "--size", 8)  # fmt: skip
    assert answer.code == 0, answer.err
    assert len(rows(Path("run/samples.csv"))) == 59


def test_links_for_each_class(photos: Made, command: Command) -> None:
    _, chosen = all_four(photos)
    answer = command("apply", photos.folder, "-o", "out", "--links")
    assert answer.code == 0, answer.err
    found = {}
    for name in CLASSES:
        for link in (Path("out") / name).iterdir():
            assert link.is_symlink()
            assert link.readlink().is_absolute()
            found[int(link.name.partition("-")[0])] = name
            assert link.resolve() == photos.photos / photos.samples.at[
                int(link.name.partition("-")[0]), "path"]  # fmt: skip
    assert found == expected(photos, chosen)
    data = load("out")
    assert len(data.train) == 59
    assert set(data.train.classes) == set(CLASSES)


@pytest.mark.parametrize("words", [[], ["--links"], ["--accept-above", "0.7"]])
def test_a_second_time_changes_nothing(photos: Made, command: Command, words: list[str]) -> None:
    all_four(photos)
    command("apply", photos.folder, "-o", "out", *words)
    before = state(Path("out"))
    assert len(before) > 3
    again = command("apply", photos.folder, "-o", "out", *words)
    assert again.code == 0
    assert state(Path("out")) == before


@pytest.mark.parametrize("words", [[], ["--links"]])
def test_later_decisions_are_taken_over(photos: Made, command: Command, words: list[str]) -> None:
    a, _, _, d, _ = some(photos.folder)
    command("apply", photos.folder, "-o", "out", *words)
    decide(photos.folder, (a, "accept", ""), (d, "outside", ""))
    command("apply", photos.folder, "-o", "out", *words)
    command("apply", photos.folder, "-o", "fresh", *words)
    assert {k: v[1] for k, v in state(Path("out")).items()} == {
        k: v[1] for k, v in state(Path("fresh")).items()
    }


def test_links_are_renewed_when_the_last_image_and_a_class_go(tmp_path: Path) -> None:
    """The names of the links that stay must not depend on those that go."""
    made = make(tmp_path, 101, top="train")
    for name in CLASSES:
        (made.photos / "test" / name).mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(made.photos / "test" / name / "one.png")
    last = [i for i in range(101) if made.given[i] == made.given[100]]
    truth = [-1 if i in last else t for i, t in enumerate(made.truth)]
    write_run(made.folder, list(made.samples["path"]), made.given, truth)
    cleaned, out = CleanedFolder.load(made.folder), tmp_path / "out"
    write(Correction.build(cleaned), out, links=True)
    decide(made.folder, *[(number, "outside", "") for number in last])
    write(Correction.build(cleaned), out, links=True)
    data = load(str(out))
    assert len(data.train) == 101 - len(last)
    assert data.test is not None
    assert len(data.test) == 3
    assert not (out / "train" / CLASSES[made.given[100]]).exists()


def test_the_model_where_nobody_decided(photos: Made, command: Command) -> None:
    cleaned, chosen = all_four(photos)
    command("apply", photos.folder, "-o", "out", "--accept-above", 0.8)
    issues = cleaned.issues
    wrong = issues[issues["verdict"] == "mislabelled"]
    sure = wrong[(wrong["confidence"] >= 0.8) & (wrong["p_noisy"] >= 0.8)]
    by_model = [row for row in rows(Path("out/audit.csv")) if row["who"] == "model"]
    assert {int(row["id"]) for row in by_model} == set(sure.index) - set(chosen[:4])
    assert 0 < len(by_model) < len(issues)
    assert {row["when"] for row in by_model} == {cleaned.time}
    for row in by_model:
        assert re.search(
            r"; wrong with probability \d\.\d\d after 4 decisions$", row["why"]
        )  # calibrated
        assert row["to"] == issues.at[int(row["id"]), "suggested_label"]
    listed = {row["path"]: row["label"] for row in rows(Path("out/labels.csv"))}
    kept = str(photos.photos / photos.samples.at[chosen[1], "path"])
    assert listed[kept] == photos.samples.at[chosen[1], "given_label"]  # people come first


def test_the_model_is_followed_only_where_it_is_sure_of_both(
    photos: Made, command: Command
) -> None:
    """It may know what an image looks like and yet not that the given label is wrong."""
    path = photos.folder / "issues.csv"
    issues = pd.read_csv(path, keep_default_na=False)
    issues["confidence"], issues["p_noisy"] = 0.95, 0.95
    first, second, third = issues.index[issues["verdict"] == "mislabelled"][:3]
    issues.loc[first, "p_noisy"] = 0.61
    issues.loc[second, "confidence"] = 0.61
    issues.to_csv(path, index=False)
    command("apply", photos.folder, "-o", "out", "--accept-above", 0.9)
    changed = {int(row["id"]) for row in rows(Path("out/audit.csv"))}
    assert changed & set(issues["id"][[first, second, third]]) == {issues["id"][third]}


def test_the_model_is_named_only_where_it_changed_something(photos: Made, command: Command) -> None:
    words = ("apply", photos.folder, "--dry-run")
    assert command(*words).out == "would write: 60 images, 0 with a new label, 0 dropped\n"
    assert command(*words, "--accept-above", 0.5).out.endswith("of these changes are the model's\n")


def test_a_dry_run_writes_nothing(photos: Made, command: Command, tmp_path: Path) -> None:
    _, chosen = all_four(photos)
    before = state(tmp_path)
    answer = command("apply", photos.folder, "--dry-run")
    assert state(tmp_path) == before
    lines = answer.out.splitlines()
    assert len(lines) == 4
    assert any(
        line.startswith(photos.samples.at[chosen[3], "path"]) and "dropped" in line
        for line in lines
    )
    assert "59 images" in lines[-1]


def test_the_default_place(photos: Made, command: Command) -> None:
    assert command("apply", photos.folder).code == 0
    assert (photos.folder / "corrected" / "labels.csv").is_file()


def test_folders_that_hold_something_else(photos: Made, mistake: Mistake, command: Command) -> None:
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    assert "full holds something else" in mistake("apply", photos.folder, "-o", "full")
    Path("file").write_text("mine")
    assert "is a file" in mistake("apply", photos.folder, "-o", "file")
    assert "holds something else" in mistake("apply", photos.folder, "-o", photos.folder)
    inside = photos.photos / "new"
    assert "is inside the data set" in mistake("apply", photos.folder, "-o", inside)
    assert not inside.exists()
    command("apply", photos.folder, "-o", "out")
    assert "than links" in mistake("apply", photos.folder, "-o", "out", "--links")
    other = make(Path("other").absolute(), 24)
    assert "holds something else" in mistake("apply", other.folder, "-o", "out")
    command("apply", photos.folder, "-o", "linked", "--links")
    stray = Path("linked") / CLASSES[0] / "stray.png"
    stray.write_text("mine")
    assert "stray.png was not put there" in mistake(
        "apply", photos.folder, "-o", "linked", "--links"
    )
    assert stray.read_text() == "mine"


def test_copies_where_links_cannot_be(
    photos: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    cleaned, chosen = all_four(photos)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    out = tmp_path / "out"
    write(Correction.build(cleaned), out, links=True)
    files = list(out.rglob("*.png"))
    assert len(files) == 59
    assert not any(path.is_symlink() for path in files)
    first = next(path for path in files if int(path.name.partition("-")[0]) == chosen[0])
    assert first.parent.name == cleaned.issues.at[chosen[0], "suggested_label"]
    assert first.read_bytes() == (photos.photos / photos.samples.at[chosen[0], "path"]).read_bytes()
    before = state(out)
    write(Correction.build(cleaned), out, links=True)
    assert state(out) == before
    assert len(load(str(out)).train) == 59


@pytest.mark.parametrize("links", [False, True])
def test_the_test_part_comes_along(tmp_path: Path, links: bool) -> None:
    made = make(tmp_path, 40, top="train")
    for k, name in enumerate(CLASSES):
        (made.photos / "val" / name).mkdir(parents=True)
        for j in range(2):
            Image.new("RGB", (40, 40), (50 * k, j, 0)).save(made.photos / "val" / name / f"{j}.png")
    cleaned, _ = all_four(made)
    written = write(Correction.build(cleaned), tmp_path / "out", links=links)
    data = load(str(written.trainable))
    assert data.test is not None
    assert [len(data.train), len(data.test)] == [39, 8]
    assert [data.test.classes[i] for i in data.test.labels.tolist()] == [
        name for name in sorted(CLASSES) for _ in range(2)
    ]


@pytest.mark.parametrize("links", [False, True])
def test_a_list_of_files_from_anywhere(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, 40)
    lists = tmp_path / "lists"
    lists.mkdir()
    paths = [f"../photos/{path}" for path in made.samples["path"]]
    moved = made.photos / "odd.jfif"  # an ending that folders are not searched for
    (tmp_path / "lists" / paths[1]).rename(moved)
    paths[1] = str(moved)
    long = made.photos / ("x" * 250 + ".png")
    (tmp_path / "lists" / paths[2]).rename(long)
    paths[2] = str(long)
    table = pd.DataFrame({"path": paths, "label": made.samples["given_label"], "split": "train"})
    extra = table.head(4).assign(label=CLASSES, split="test")
    pd.concat([table, extra, extra.head(1).assign(split="val")]).to_csv(
        lists / "mine.csv", index=False
    )
    write_run(made.folder, paths, made.given, made.truth)
    write_about(made.folder, "lists/mine.csv", lists, CLASSES)
    cleaned, _ = all_four(made)
    monkeypatch.chdir("/")  # the list is found beside the files' root
    written = write(Correction.build(cleaned), tmp_path / "out", links=links)
    data = load(str(written.trainable))
    assert data.test is not None
    assert [len(data.train), len(data.test)] == [39, 4]
    if not links:
        assert "column" not in (tmp_path / "out" / "labels.csv").read_text().splitlines()[0]
        splits = [row["split"] for row in rows(tmp_path / "out" / "labels.csv")]
        assert [len(list(group)) for _, group in itertools.groupby(splits)] == [39, 4, 1]


def test_a_class_named_train(tmp_path: Path) -> None:
    made = make(tmp_path)
    for path in (
        made.folder / "samples.csv",
        made.folder / "issues.csv",
        made.folder / "data.json",
    ):
        path.write_text(path.read_text().replace("ash", "train"))
    (made.photos / "ash").rename(made.photos / "train")
    written = write(Correction.build(CleanedFolder.load(made.folder)), tmp_path / "out", links=True)
    data = load(str(written.trainable))
    assert "train" in data.train.classes
    assert len(data.train) == 40


def test_a_class_that_loses_every_image(tmp_path: Path, command: Command) -> None:
    made = make(tmp_path, 60)
    table = made.samples
    only = [i for i in table.index if made.given[i] == 0]
    given = [1 if i in only[1:] else g for i, g in enumerate(made.given)]
    truth = [t if i != only[0] else 2 for i, t in enumerate(made.truth)]
    write_run(made.folder, list(table["path"]), given, truth)
    decide(made.folder, (only[0], "accept", ""))
    answer = command("apply", made.folder, "-o", "out")
    assert "no image is left in class 'ash'" in answer.out
    assert load("out/labels.csv").train.classes == tuple(sorted(CLASSES[1:]))


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "audit.csv"])
def test_classes_that_cannot_be_folders(tmp_path: Path, name: str) -> None:
    made = make(tmp_path)
    for path in (made.folder / "samples.csv", made.folder / "issues.csv"):
        text = path.read_text().replace(",ash,", f",{name},")
        path.write_text(text)
    write_about(made.folder, "mine.csv", tmp_path, [name, *CLASSES[1:]])
    (tmp_path / "mine.csv").write_text("path,label\na,b\n")
    with pytest.raises(DataError, match="cannot be a folder"):
        write(Correction.build(CleanedFolder.load(made.folder)), tmp_path / "out", links=True)
    assert not (tmp_path / "out").exists()


def test_names_that_a_list_cannot_hold(tmp_path: Path) -> None:
    made = make(tmp_path)
    for path in (
        made.folder / "samples.csv",
        made.folder / "issues.csv",
        made.folder / "data.json",
    ):
        path.write_text(path.read_text().replace("ébène 木", "ébène "))
    with pytest.raises(DataError, match="use --links"):
        write(Correction.build(CleanedFolder.load(made.folder)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_everything_dropped(tmp_path: Path) -> None:
    made = make(tmp_path, 8)
    given = [made.given[i] for i in range(8)]
    write_run(made.folder, list(made.samples["path"]), given, [-1] * 8)
    decide(made.folder, *[(i, "outside", "") for i in range(8)])
    with pytest.raises(DrplError, match="every image would be dropped"):
        write(Correction.build(CleanedFolder.load(made.folder)), tmp_path / "out")


def test_paths_that_leave_the_data_set(photos: Made, mistake: Mistake) -> None:
    path = photos.folder / "samples.csv"
    path.write_text(path.read_text().replace("ash/tree 0.png", "../tree 0.png"))
    assert "is not inside the data set" in mistake("apply", photos.folder, "-o", "out", "--links")
    assert not Path("out").exists()


@pytest.fixture
def arrays(tmp_path: Path) -> Made:
    """The same as arrays: nothing is a file."""
    made = make(tmp_path, 60)
    pixels = np.stack([np.asarray(Image.open(made.photos / path)) for path in made.samples["path"]])
    truth = np.array(made.truth)
    np.savez(
        tmp_path / "trees.npz",
        x=pixels,
        y=made.given,
        x_test=pixels[:9],
        y_test=[0, 1, 2, 3, 0, 1, 2, 3, 0],
        y_true=truth,
        classes=CLASSES,
    )
    write_run(made.folder, [""] * 60, made.given, made.truth)
    write_about(made.folder, str(tmp_path / "trees.npz"), None, CLASSES)
    return made


def test_arrays_become_arrays(arrays: Made, command: Command) -> None:
    _, chosen = all_four(arrays)
    answer = command("apply", arrays.folder, "-o", "out")
    assert answer.code == 0, answer.err
    data, source = load("out/data.npz"), load(str(arrays.photos.parent / "trees.npz"))
    wanted = expected(arrays, chosen)
    assert [CLASSES[i] for i in data.train.labels.tolist()] == list(wanted.values())
    kept = list(wanted)
    index = source.train.labels.new_tensor(range(59))
    assert bool(
        (data.train.images.load(index) == source.train.images.load(index.new_tensor(kept))).all()
    )
    assert data.train.truth is not None
    shown = data.train.truth.in_distribution.tolist()
    assert shown == [arrays.truth[number] >= 0 for number in kept]
    assert data.test is not None
    assert len(data.test) == 9
    before = state(Path("out"))
    command("apply", arrays.folder, "-o", "out")
    assert state(Path("out")) == before
    answer = command("detect", "out/data.npz", "--out", "run", *FAST)
    assert answer.code == 0, answer.err


def test_a_part_of_a_data_set(command: Command) -> None:
    """What --limit chose is read again."""
    words = ("clean", "digits", "--limit", "40", "--budget", "1s", "--features", "none", "--quiet")
    assert command(*words, "-o", "part").code == 0
    answer = command("apply", "part", "-o", "better")
    assert answer.code == 0
    assert "40 images" in answer.out


def test_a_named_set_from_its_folder(command: Command, tmp_path: Path) -> None:
    """The command that was proposed looked for it in ./data, and for the classes set aside."""
    make_cifar10(tmp_path / "sets" / "cifar-10-batches-py", batches=5)
    read = ("--data-dir", "sets", "--outside", "class 3")
    answer = command("clean", "cifar10", "-o", "out", "--features", "none", "--budget", "1s", *read)
    assert answer.code == 0, answer.err
    again = answer.out.partition("write the corrected data set: drpl ")[2].splitlines()[0]
    answer = command(*again.split())
    assert answer.code == 0, answer.err
    assert "class 3" not in load("out/corrected/data.npz").train.classes


def test_arrays_that_lose_a_class(arrays: Made, command: Command) -> None:
    only = [i for i in range(60) if arrays.given[i] == 0]
    write_run(
        arrays.folder,
        [""] * 60,
        arrays.given,
        [-1 if i in only else t for i, t in enumerate(arrays.truth)],
    )
    decide(arrays.folder, *[(number, "outside", "") for number in only])
    assert command("apply", arrays.folder, "-o", "out").code == 0
    data = load("out/data.npz")
    assert data.train.classes == CLASSES[1:]
    assert [data.train.classes[i] for i in data.train.labels.tolist()] == [
        CLASSES[g] for g in arrays.given if g != 0
    ]
    assert data.test is not None
    assert len(data.test) == 6


def test_arrays_that_are_not_what_was_cleaned(arrays: Made, mistake: Mistake) -> None:
    assert "leave --links out" in mistake("apply", arrays.folder, "--links", "-o", "out")
    source = arrays.photos.parent / "trees.npz"
    with np.load(source) as found:
        content = dict(found)
    np.savez(source, **{**content, "y": content["y"][::-1]})
    assert "not those that were cleaned" in mistake("apply", arrays.folder, "-o", "out")
    source.unlink()
    assert "there is no file" in mistake("apply", arrays.folder, "-o", "out")
    assert not Path("out").exists()


def test_a_full_disk(photos: Made, mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in mistake("apply", photos.folder, "-o", "out")


def test_review_and_list_need_no_torch(photos: Made, tmp_path: Path) -> None:
    script = (
        "import sys; sys.argv = ['drpl', *sys.argv[1:]]\n"
        "import drpl.cleaning.review.server\n"
        "from drpl.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as left: assert not left.code\n"
        "assert 'torch' not in sys.modules"
    )
    for name, option, out in (("review", "--page", "page.html"), ("apply", "-o", "out")):
        words = [
            sys.executable,
            "-c",
            script,
            name,
            str(photos.folder),
            option,
            f"{tmp_path / out}",
        ]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "applied.json").read_text())["kind"] == "list"


def test_what_was_changed_is_described(photos: Made, command: Command) -> None:
    """For people, and as a Croissant description for programs; the checksums are the files'."""
    all_four(photos)
    command("apply", photos.folder, "-o", "out")
    page = Path("out/changes.md").read_text()
    assert "59 images, 2 with a new label, 1 dropped" in page
    assert "| Ann | 3 |" in page
    assert "left out | 1 |" in page
    about = json.loads(Path("out/croissant.json").read_text())
    assert about["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    files = {file["contentUrl"]: file["sha256"] for file in about["distribution"]}
    assert set(files) == {"labels.csv", "audit.csv", "dropped.csv"}
    for name, wanted in files.items():
        assert hashlib.sha256((Path("out") / name).read_bytes()).hexdigest() == wanted
    columns = {
        table["@id"]: [field["source"]["extract"]["column"] for field in table["field"]]
        for table in about["recordSet"]
    }
    assert columns["images"] == ["path", "label"]
    assert columns["changes"] == list(rows(Path("out/audit.csv"))[0])


def test_a_name_is_no_markup_on_the_page_of_changes(tmp_path: Path, command: Command) -> None:
    made = make(tmp_path, 60)
    decide(made.folder, (some(made.folder)[0], "accept", ""), who="<b>|*Ann*\n# x")
    command("apply", made.folder, "-o", "out")
    assert r"| \<b\>\|\*Ann\*\\n\# x | 1 |" in Path("out/changes.md").read_text()
