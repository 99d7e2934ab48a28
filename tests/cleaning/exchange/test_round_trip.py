"""Out and back loses no decision, whatever the format."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import drpl
from drpl.cleaning.folder import CleanedFolder, write_about
from drpl.cleaning.review.decision_log import read_decisions
from drpl.registry import FORMATS
from tests.cleaning.exchange.conftest import Decided, hold
from tests.cleaning.test_apply import decide
from tests.cli.test_cli import Mistake
from tests.conftest import Command
from tests.support.cleaned import CLASSES, add_found, make, rows, write_run


def place(where: Path, name: str) -> Path:
    return where / f"labels{FORMATS[name].ending}"


@pytest.mark.parametrize("name", FORMATS)
def test_two_hundred_decisions(
    decided: Decided, name: str, tmp_path: Path, command: Command
) -> None:
    out = place(tmp_path, name)
    answer = command("export-labels", decided.folder, "--to", name, "-o", out)
    assert answer.code == 0, answer.err
    assert "700 images, 160 decided" in answer.out
    back = decided.copy(f"back-{name}")
    answer = command("review", back, "--import", out, "--reviewer", "nobody")
    assert answer.code == 0, answer.err
    assert answer.out == "took in 200 decisions\n"
    assert hold(back) == hold(decided.folder)
    before = (back / "decisions.csv").read_bytes()
    answer = command("review", back, "--import", out, "--reviewer", "nobody")
    assert answer.out == "took in 0 decisions; 200 were there already\n"
    assert (back / "decisions.csv").read_bytes() == before
    answer = command("export-labels", back, "--to", name, "-o", out)  # over the first
    assert answer.code == 0, answer.err
    answer = command("review", decided.folder, "--import", out)
    assert answer.out == "took in 0 decisions; 200 were there already\n"


@pytest.mark.parametrize("name", FORMATS)
def test_only_issues(decided: Decided, name: str, tmp_path: Path) -> None:
    out = place(tmp_path, name)
    drpl.export_labels(decided.folder, name, out)
    written = drpl.export_labels(decided.folder, name, out, issues_only=True)
    cleaned = CleanedFolder.load(decided.folder)
    several = set(cleaned.issues.index) | set(hold(decided.folder)[1])
    assert written == (len(several), 160, [])
    back = decided.copy(f"issues-{name}")
    assert drpl.import_labels(back, out, reviewer="Ann") == (200, 0, [])
    assert hold(back) == hold(decided.folder)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_suspicious(name: str, tmp_path: Path, command: Command) -> None:
    """A file without images is one, and none is taken in."""
    folder, out = tmp_path / "cleaned", place(tmp_path, name)
    write_run(folder, [f"{k}.png" for k in range(8)], [k % 4 for k in range(8)], list(range(4)) * 2)
    (tmp_path / "photos").mkdir()
    write_about(folder, "photos", tmp_path / "photos", CLASSES)
    answer = command("export-labels", folder, "--to", name, "-o", out, "--issues")
    assert answer.code == 0, answer.err
    assert "0 images, 0 decided" in answer.out
    assert command("review", folder, "--import", out).out == "took in 0 decisions\n"


@pytest.mark.parametrize("name", ["label-studio", "coco", "cvat", "csv"])
def test_images_without_files(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "cleaned"
    count = 24
    truth = [k % 4 for k in range(count)]
    write_run(folder, [""] * count, [(k + (k % 3 == 0)) % 4 for k in truth], truth)
    write_about(folder, "arrays.npz", None, CLASSES)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    numbers = CleanedFolder.load(folder).issues.index[:3]
    decide(
        folder,
        *((int(n), way, "") for n, way in zip(numbers, ("accept", "keep", "outside"), strict=True)),
    )
    out = place(tmp_path, name)
    drpl.export_labels(folder, name, out)
    assert drpl.import_labels(other, out, reviewer="Ann") == (3, 0, [])
    assert hold(other) == hold(folder)


def test_decisions_on_duplicates_and_outliers(tmp_path: Path) -> None:
    """They are on images that are not in the list."""
    made = make(tmp_path, 60)
    strange = add_found(made)
    copy = Path(shutil.copytree(made.folder, tmp_path / "copy"))
    clean = [n for n in CleanedFolder.load(made.folder).found if made.given[n] == made.truth[n]]
    decide(made.folder, *((number, "keep", "") for number in {*strange, *clean}))
    drpl.export_labels(made.folder, "coco", tmp_path / "out.json", issues_only=True)
    drpl.import_labels(copy, tmp_path / "out.json", reviewer="Ann")
    assert hold(copy) == hold(made.folder)


def test_a_class_that_is_called_none(tmp_path: Path) -> None:
    """An image of that class is not dropped, and one that is dropped is not of that class."""
    made = make(tmp_path)
    for file in made.folder.iterdir():
        text = file.read_text().replace(CLASSES[0], "none of the classes")
        file.write_text(text)
    copy = Path(shutil.copytree(made.folder, tmp_path / "copy"))
    a, b = (int(number) for number in CleanedFolder.load(made.folder).issues.index[:2])
    decide(made.folder, (a, "relabel", "none of the classes"), (b, "outside", ""))
    drpl.export_labels(made.folder, "coco", tmp_path / "out.json")
    drpl.import_labels(copy, tmp_path / "out.json", reviewer="Ann")
    assert hold(copy) == hold(made.folder)


@pytest.mark.parametrize("name", ["fiftyone", "huggingface", "coco"])
def test_a_label_changed_in_the_file_is_a_decision(name: str, tmp_path: Path) -> None:
    """Labels that nobody decided on are none; changed ones are, without a word on who did it."""
    made = make(tmp_path)
    out = place(tmp_path, name)
    drpl.export_labels(made.folder, name, out)
    assert drpl.import_labels(made.folder, out, reviewer="Ann") == (0, 0, [])
    changed = 7
    if name == "coco":
        content = json.loads(out.read_text())
        entry = next(one for one in content["annotations"] if one["image_id"] == changed)
        entry["category_id"] = 1 + (entry["category_id"] % 4)
        label = content["categories"][entry["category_id"] - 1]["name"]
        out.write_text(json.dumps(content))
    elif name == "fiftyone":
        content = json.loads((out / "labels.json").read_text())
        label = CLASSES[made.given[changed] - 1]
        content["labels"][f"{changed:07}-tree {changed}"]["label"] = label
        (out / "labels.json").write_text(json.dumps(content))
    else:
        label = CLASSES[1]
        file = out / "train" / "metadata.csv"
        head, *lines = file.read_text().splitlines(keepends=True)
        line = next(line for line in lines if line.startswith(f"{changed:07}-"))
        given = CLASSES[made.given[changed]]
        lines[lines.index(line)] = line.replace(f",{given},", f',"{label}",', 1)
        file.write_text("".join([head, *lines]))
    assert drpl.import_labels(made.folder, out, reviewer="Ann") == (1, 0, [])
    (decision,) = read_decisions(CleanedFolder.load(made.folder))
    assert (decision.id, decision.who, decision.label) == (changed, "Ann", label)
    assert drpl.import_labels(made.folder, out, reviewer="Ann") == (0, 1, [])


def test_what_label_studio_gets(tmp_path: Path, command: Command) -> None:
    made = make(tmp_path)
    cleaned = CleanedFolder.load(made.folder)
    a, b = (int(number) for number in cleaned.issues.index[:2])
    decide(made.folder, (b, "keep", ""))
    out = tmp_path / "tasks.json"
    command("export-labels", made.folder, "--to", "label-studio", "-o", out, "--issues")
    tasks = json.loads(out.read_text())
    assert [task["data"]["path"] for task in tasks] == cleaned.issues["path"].tolist()
    first = tasks[0]
    (prediction,) = first["predictions"]
    assert prediction["model_version"].startswith(f"drpl {drpl.__version__} ")
    assert prediction["score"] == pytest.approx(cleaned.issues.at[a, "confidence"])
    verdict, suggested = cleaned.issues.loc[a, ["verdict", "suggested_label"]]
    label = "none of the classes" if verdict == "outside" else suggested
    assert prediction["result"] == [
        {
            "from_name": "label",
            "to_name": "image",
            "type": "choices",
            "value": {"choices": [label]},
        }
    ]
    assert first["annotations"] == []
    assert len(tasks[1]["annotations"]) == 1
    assert first["data"]["image"].startswith("/data/local-files/?d=")
    assert " " not in first["data"]["image"]
    view = out.with_suffix(".interface.xml").read_text()
    assert view.count("<Choice ") == 5
    assert 'value="cedar &quot;tall&quot;"' in view
    command("export-labels", made.folder, "--to", "label-studio", "-o", out,
            "--images", "https://host/p/")  # fmt: skip
    task: dict[str, Any] = json.loads(out.read_text())[0]
    assert task["data"]["image"].startswith("https://host/p/")


def test_a_table_to_fill_in(tmp_path: Path, command: Command) -> None:
    made = make(tmp_path)
    out = tmp_path / "labels.csv"
    command("export-labels", made.folder, "--to", "csv", "-o", out)
    table = rows(out)
    assert list(table[0])[:3] == ["id", "path", "given_label"]
    assert {row["label"] for row in table} == {""}
    filled = [
        {"path": table[0]["path"], "label": table[0]["given_label"]},
        {"path": table[1]["path"], "label": "none of the classes"},
    ]
    text = "".join(f'"{row["path"]}","{row["label"]}"\n' for row in filled).replace(
        'cedar "tall"', 'cedar ""tall""'
    )
    out.write_text("path,label\n" + text)
    answer = command("review", made.folder, "--import", out, "--reviewer", "Eve")
    assert answer.out == "took in 2 decisions\n"
    lines = read_decisions(CleanedFolder.load(made.folder))
    assert [(line.who, line.action) for line in lines] == [("Eve", "keep"), ("Eve", "outside")]
    assert lines[0].why.endswith("; from csv")


def test_where_nothing_is_written(
    tmp_path: Path, mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path)
    words = ("export-labels", made.folder, "--to")
    assert "did you mean 'coco'" in mistake(*words, "cocoo", "-o", "x.json")
    assert "ends with .json" in mistake(*words, "coco", "-o", "x.csv")
    assert "is inside" in mistake(*words, "csv", "-o", made.folder / "decisions.csv")
    assert "is inside" in mistake(*words, "csv", "-o", made.photos / "labels.csv")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert "something else" in mistake(*words, "fiftyone", "-o", tmp_path / "full")
    (tmp_path / "file").write_text("mine")
    assert "is a file" in mistake(*words, "huggingface", "-o", tmp_path / "file")
    drpl.export_labels(made.folder, "huggingface", tmp_path / "hf")
    (tmp_path / "hf" / "train" / "mine.png").write_text("mine")
    assert "was not put there" in mistake(*words, "huggingface", "-o", tmp_path / "hf")
    assert not (made.folder / "decisions.csv").exists()


def write_two(where: Path, paths: list[str]) -> tuple[Path, Path]:
    """Two folders whose images have the same names, or numbers, and other labels; the first is
    decided."""
    count = len(paths)
    truth = [k % 4 for k in range(count)]
    for name, shift in (("first", 0), ("second", 1)):
        given = [(t + shift + (k % 3 == 0)) % 4 for k, t in enumerate(truth)]
        write_run(where / name, paths, given, [(t + shift) % 4 for t in truth])
        root = where / "photos" if paths[0] else None
        write_about(where / name, "data", root, CLASSES)
    for path in filter(None, paths):
        (where / "photos").mkdir(exist_ok=True)
        (where / "photos" / path).write_bytes(b"")
    numbers = [int(number) for number in CleanedFolder.load(where / "first").issues.index[:4]]
    ways = (("accept", ""), ("keep", ""), ("relabel", CLASSES[3]), ("outside", ""))
    decide(where / "first", *((n, *way) for n, way in zip(numbers, ways, strict=True)))
    return where / "first", where / "second"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_decisions_on_other_data_are_refused(
    name: str, named: bool, tmp_path: Path, mistake: Mistake
) -> None:
    if not named and not FORMATS[name].ending:
        pytest.skip("it takes files")
    first, second = write_two(tmp_path, [f"{k}.png" if named else "" for k in range(24)])
    out = place(tmp_path, name)
    drpl.export_labels(first, name, out)
    said = mistake("review", second, "--import", out)
    assert "belongs to another cleaned folder: the given label of" in said
    assert not (second / "decisions.csv").exists()


def test_a_log_of_other_data_is_refused(tmp_path: Path, mistake: Mistake) -> None:
    first, second = write_two(tmp_path, [""] * 24)
    log = first / "decisions.csv"
    said = mistake("review", second, "--import", log)
    assert "belongs to other images, or other labels, than" in said
    copy = Path(shutil.copy(log, tmp_path / "saved.csv"))  # with nothing beside it
    assert "belongs to another cleaned folder" in mistake("review", second, "--import", copy)
    head, *lines = log.read_text().splitlines()
    identity = CleanedFolder.load(first).identity
    only = [line for line in lines if ",outside," in line]  # it has no label to know it by
    copy.write_text("\n".join([f"{head},identity", *(f"{line},{identity}" for line in only), ""]))
    assert "saved by a page of other images" in mistake("review", second, "--import", copy)
    assert not (second / "decisions.csv").exists()
    again = Path(shutil.copytree(first, tmp_path / "again", ignore=lambda *_: ["decisions.csv"]))
    assert drpl.import_labels(again, copy, reviewer="Ann") == (1, 0, [])
    assert drpl.import_labels(again, log, reviewer="Ann") == (3, 1, [])
    assert hold(again) == hold(first)


def test_a_label_that_was_accepted_stays_where_another_is_suggested(
    tmp_path: Path, mistake: Mistake
) -> None:
    """As after cleaning the same images with another seed or budget."""
    first, _ = write_two(tmp_path, [f"{k}.png" for k in range(24)])
    log = first / "decisions.csv"
    decisions = rows(log)
    number, accepted = int(decisions[0]["id"]), decisions[0]["label"]
    again = Path(shutil.copytree(first, tmp_path / "again", ignore=lambda *_: ["decisions.csv"]))
    for name in ("samples.csv", "issues.csv"):
        table = pd.read_csv(again / name, keep_default_na=False)
        mine = table["id"] == number
        others = [c for c in CLASSES if c not in (accepted, table["given_label"][mine].item())]
        table.loc[mine, "suggested_label"] = others[0]
        table.to_csv(again / name, index=False)
    head, *lines = log.read_text().splitlines()
    identity = CleanedFolder.load(first).identity
    unknown = (tmp_path / "saved.csv", again / "decisions (1).csv")  # nobody knows of what data
    for copy in unknown:
        shutil.copy(log, copy)
        said = mistake("review", again, "--import", copy)
        assert "belongs to another cleaned folder" in said
        assert said.endswith("taken over by: drpl clean DATA -o NEW --decisions FILE\n")
    page = tmp_path / "page.csv"
    page.write_text("\n".join([f"{head},identity", *(f"{line},{identity}" for line in lines), ""]))
    assert drpl.import_labels(again, page, reviewer="Ann") == (4, 0, [])
    assert drpl.import_labels(again, log, reviewer="Ann") == (0, 4, [])
    made = read_decisions(CleanedFolder.load(again))
    assert decisions[0]["action"] == "accept"
    actions = ["relabel", *(row["action"] for row in decisions[1:])]
    assert [line.action for line in made] == actions
    assert [line.label for line in made] == [row["label"] for row in decisions]
    assert made[0].why.startswith("chose another class")
