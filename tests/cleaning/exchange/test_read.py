"""Files of other tools, written by hand, broken, hostile, or of other images."""

import json
from pathlib import Path
from typing import Any

import pytest

import drpl
from drpl.cleaning.exchange.carry_over import carry_over, read_earlier
from drpl.cleaning.exchange.labels import name_images
from drpl.cleaning.exchange.names import ImageNames
from drpl.cleaning.exchange.read import read_labels
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import DecisionLog, read_decisions
from drpl.errors import DataError, StorageError
from tests.cleaning.test_apply import decide
from tests.cli.test_cli import Mistake
from tests.conftest import Command
from tests.support.cleaned import CLASSES, Made, make


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make(tmp_path)


def annotate(*choices: str, who: Any = 3, time: str = "2026-02-03T04:05:06.789Z") -> dict[str, Any]:
    """An annotation as Label Studio exports it."""
    return {
        "id": 17,
        "completed_by": who,
        "result": [
            {
                "id": "x1",
                "from_name": "choice",
                "to_name": "picture",
                "type": "choices",
                "origin": "manual",
                "value": {"choices": list(choices)},
            }
        ],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-02-01T00:00:00.000Z",
        "updated_at": time,
        "lead_time": 1.5,
    }


def export_by_hand(made: Made) -> list[dict[str, Any]]:
    """What somebody's project of Label Studio has, uploaded and served in several ways."""
    paths = [Path(path) for path in made.samples["path"]]
    given = [CLASSES[label] for label in made.given]
    other = [CLASSES[(label + 1) % 4] for label in made.given]
    ann = {"id": 3, "email": "ann@x.org", "first_name": "", "last_name": ""}
    served = "/data/local-files/?d=photos/" + str(paths[0]).replace(" ", "%20")
    uploaded = f"/data/upload/7/0a1b2c3d-{paths[1].name.replace(' ', '%20')}"
    skipped = annotate(other[4]) | {"was_cancelled": True}
    return [
        {"id": 1, "data": {"image": served}, "annotations": [annotate(given[0])], "project": 4},
        {"id": 2, "data": {"image": uploaded}, "annotations": [annotate(other[1], who=ann)]},
        {
            "id": 3,
            "data": {"image": f"https://host/a/{paths[2]}?key=1", "note": "none"},
            "annotations": [
                annotate(other[2], who=ann, time="2026-02-04T00:00:00+02:00"),  # the later one
                annotate("none of the classes"),
            ],
            "predictions": [annotate(given[2])],
        },
        {"id": 4, "data": {"image": f"s3://b/{paths[3]}"}, "annotations": []},
        {"id": 5, "data": {"image": str(paths[4])}, "annotations": [skipped]},
    ]


def test_a_hand_written_export_of_label_studio(made: Made, command: Command) -> None:
    Path("export.json").write_text(json.dumps(export_by_hand(made)))
    answer = command("review", made.folder, "--import", "export.json", "--reviewer", "Eve")
    assert (answer.code, answer.out) == (0, "took in 4 decisions\n"), answer.err
    found = read_decisions(CleanedFolder.load(made.folder))
    other = [CLASSES[(label + 1) % 4] for label in made.given]
    assert [(line.id, line.who, line.time, line.label) for line in found] == [
        (0, "annotator 3", "2026-02-03T04:05:06.789Z", CLASSES[made.given[0]]),
        (1, "ann@x.org", "2026-02-03T04:05:06.789Z", other[1]),
        (2, "annotator 3", "2026-02-03T04:05:06.789Z", ""),
        (2, "ann@x.org", "2026-02-03T22:00:00Z", other[2]),
    ]
    assert found[0].action == "keep"
    assert found[2].action == "outside"
    answer = command("review", made.folder, "--import", "export.json")
    assert answer.out == "took in 0 decisions; 4 were there already\n"


def test_a_decision_that_was_changed_in_label_studio(made: Made, tmp_path: Path) -> None:
    """It is no longer Ann's, who made it here."""
    number = int(CleanedFolder.load(made.folder).issues.index[0])
    decide(made.folder, (number, "keep", ""))
    drpl.export_labels(made.folder, "label-studio", tmp_path / "t.json", issues_only=True)
    tasks = json.loads((tmp_path / "t.json").read_text())
    annotation = tasks[0]["annotations"][0]
    annotation |= {"completed_by": {"email": "bob@x.org"}, "updated_at": "2030-01-01T00:00:00Z"}
    label = next(name for name in CLASSES if name != CLASSES[made.given[number]])
    annotation["result"][0]["value"]["choices"] = [label]
    (tmp_path / "t.json").write_text(json.dumps(tasks))
    assert drpl.import_labels(made.folder, tmp_path / "t.json", reviewer="Eve") == (1, 0, [])
    last = read_decisions(CleanedFolder.load(made.folder))[-1]
    assert (last.who, last.time, last.label) == ("bob@x.org", "2030-01-01T00:00:00Z", label)


def test_the_small_json_of_label_studio(made: Made, tmp_path: Path) -> None:
    rows = [
        {"image": f"/x/{made.samples.at[3, 'path']}", "id": 900, "label": CLASSES[0],
         "annotator": 2, "created_at": "2026-02-01T00:00:00Z"},
        {"image": f"/x/{made.samples.at[5, 'path']}", "id": 901, "label": "ash",
         "annotator": 2, "created_at": "2026-02-01T00:00:00Z"},
    ]  # fmt: skip
    (tmp_path / "min.json").write_text(json.dumps(rows))
    assert drpl.import_labels(made.folder, tmp_path / "min.json", reviewer="Eve")[:2] == (2, 0)
    found = read_decisions(CleanedFolder.load(made.folder))
    assert [(line.id, line.who) for line in found] == [(3, "2"), (5, "2")]


def break_json(text: str) -> str:
    return text[: len(text) // 2]


def change(text: str, how: Any) -> str:
    content = json.loads(text)
    how(content)
    return json.dumps(content)


BROKEN = {
    "cut in half": (break_json, "cannot read"),
    "empty": (lambda _: "", "cannot read"),
    "nested": (lambda _: "[" * 100_000, "cannot read"),
    "no list": (lambda _: '{"tasks": 1}', "in any of the formats label-studio, fiftyone"),
    "a number": (lambda _: "7", "in any of the formats"),
    "no results": (
        lambda text: change(text, lambda t: t[2]["annotations"][1].pop("result")),
        "an annotation of task 3 has no list of results",
    ),
    "no image": (
        lambda text: change(text, lambda t: t[1].update(data={"text": "x"})),
        "the data of task 2 name no image",
    ),
    "no choices": (
        lambda text: change(text, lambda t: t[0]["annotations"][0]["result"][0].update(value=1)),
        "a choice in task 1 has no list of choices",
    ),
    "no tasks": (lambda text: change(text, lambda t: t.append(3)), "in any of the formats"),
    "no annotations": (
        lambda text: change(text, lambda t: t[0].update(annotations=5)),
        "task 1 has no data, or no list of annotations",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_export_of_label_studio(made: Made, how: str, mistake: Mistake) -> None:
    number = int(CleanedFolder.load(made.folder).issues.index[0])
    decide(made.folder, (number, "keep", ""))
    before = (made.folder / "decisions.csv").read_bytes()
    spoil, sentence = BROKEN[how]
    Path("export.json").write_text(spoil(json.dumps(export_by_hand(made))))
    assert sentence in mistake("review", made.folder, "--import", "export.json")
    assert (made.folder / "decisions.csv").read_bytes() == before


HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'
LAUGHS = (
    '<!DOCTYPE a [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 50}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>"
)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.xml", HEAD + LAUGHS + "<annotations><version>&i;</version></annotations>", "type"),
        ("a.xml", HEAD + '<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotations/>', "type"),
        ("a.xml", HEAD + "<annotations><image>", "cannot read"),
        ("a.xml", HEAD + "<svg/>", "in any of the formats"),
        ("a.xml", "", "cannot read"),
        ("a.csv", "", "it is empty"),
        ("a.csv", "a,b\n1,2\n", "columns path and label"),
        ("a.csv", "path,label\nx\n", "row 1 has 1 cells, not 2"),
        ("a.csv", 'path,label\n"x,y\n', "cannot read"),
        ("a.csv", "file_name,label,others\nx,ash,nonsense\n", "cannot read"),
        ("a.csv", "file_name,label,others\nx,ash,[3]\n", "is no list"),
        ("a.txt", "path,label\n", "ends with none of .csv, .json, .xml"),
        ("a.json", '{"images": [], "annotations": [{"image_id": 1}], "categories": []}', "listed"),
        (
            "a.json",
            '{"images": [], "annotations": [{"bbox": [0, 0, 1, 1]}], "categories": []}',
            "whole images",
        ),
        ("a.json", '{"classes": ["ash"], "labels": {"x": 4}}', "no class of it"),
        ("a.csv", "path,label\nno/such.png,ash\n", "first 'no/such.png'"),
        ("a.csv", "path,label\nash/tree 0.png,asch\n", "did you mean 'ash'"),
        ("a.csv", "path,label,who\nash/tree 0.png,ash,model\n", "stands for the model"),
    ],
)
def test_files_that_cannot_be_used(
    made: Made, name: str, text: str, sentence: str, mistake: Mistake
) -> None:
    Path(name).write_text(text)
    assert sentence in mistake("review", made.folder, "--import", name)
    assert not read_decisions(CleanedFolder.load(made.folder))


def test_a_document_type_is_seen_in_any_encoding(tmp_path: Path) -> None:
    text = LAUGHS + "<annotations>&i;</annotations>"
    (tmp_path / "a.xml").write_bytes(text.encode("utf-16"))
    with pytest.raises(DataError, match="document type"):
        read_labels(tmp_path / "a.xml")


def test_places_without_labels(made: Made, tmp_path: Path, mistake: Mistake) -> None:
    (tmp_path / "folder").mkdir()
    words = ("review", made.folder, "--import")
    assert "labels.json" in mistake(*words, tmp_path / "folder")
    assert "no such file" in mistake(*words, tmp_path / "none.json")


def test_a_file_that_may_not_be_read(
    made: Made, monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    file = Path("decisions.csv")
    file.write_text("time,who,id,action,label,why\n")
    real_open, real_read = Path.open, Path.read_bytes

    def refuse(real: Any) -> Any:
        def act(self: Path, *arguments: Any, **more: Any) -> Any:
            if self == file:
                raise PermissionError(13, "Permission denied")
            return real(self, *arguments, **more)

        return act

    monkeypatch.setattr(Path, "open", refuse(real_open))
    monkeypatch.setattr(Path, "read_bytes", refuse(real_read))
    said = mistake("review", made.folder, "--import", file)
    assert "cannot read decisions.csv" in said
    assert "Permission denied" in said


def test_what_does_not_fit_is_said(made: Made, command: Command) -> None:
    paths = made.samples["path"]
    Path("labels.csv").write_text(
        "path,label,who\n"
        f'"{paths[0]}",ash,Ann\n'
        "elsewhere/1.png,ash,Ann\n"
        "elsewhere/2.png,ash,Ann\n"
        f'"{paths[1]}",oak,Ann\n'
        f'"{paths[2]}",ash,Ann\n'
        f'"{paths[2]}","birch, white",Ann\n'
    )
    answer = command("review", made.folder, "--import", "labels.csv")
    assert answer.code == 0
    assert "took in 1 decision\n" in answer.out
    assert "note: 2 of 6 labels in labels.csv are of images that are not in" in answer.out
    assert "first 'elsewhere/1.png'" in answer.out
    assert "note: 1 labels in labels.csv are no class: 'oak' (1)" in answer.out
    assert "note: 1 images in labels.csv have several labels of one person" in answer.out
    assert [line.id for line in read_decisions(CleanedFolder.load(made.folder))] == [0]


def test_an_image_by_its_id(made: Made, tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("id,label\n3,ash\n900,ash\n")
    taken = drpl.import_labels(made.folder, tmp_path / "ids.csv", reviewer="Eve")
    assert taken[:2] == (1, 0)
    assert "first 'image 900'" in taken.notes[0]


def test_labels_of_cvat_by_hand(made: Made, tmp_path: Path) -> None:
    """Tags of people count, those of a model do not."""
    path = made.samples["path"]
    (tmp_path / "annotations.xml").write_text(
        HEAD
        + "<annotations><version>1.1</version>"
        + f'<image id="9" name="{path[0]}"><tag label="ash" source="manual"></tag></image>'
        + f'<image id="8" name="{path[1]}"><tag label="ash" source="auto"></tag></image>'
        + f'<image id="7" name="{path[2]}"><box label="ash"/></image></annotations>'
    )
    assert drpl.import_labels(made.folder, tmp_path, reviewer="Eve") == (1, 0, [])
    (line,) = read_decisions(CleanedFolder.load(made.folder))
    assert (line.id, line.label, line.who) == (0, "ash", "Eve")


def test_labels_of_fiftyone_by_hand(made: Made, tmp_path: Path) -> None:
    content = {
        "classes": ["ash", "birch, white"],
        "labels": {"tree 0": 1, "tree 1": {"label": "ash"}, "tree 2": None, "tree 3": [0, 1]},
    }
    (tmp_path / "labels.json").write_text(json.dumps(content))
    new, old, notes = drpl.import_labels(made.folder, tmp_path / "labels.json", reviewer="Eve")
    assert (new, old) == (2, 0)
    assert "several labels" in notes[0]
    found = read_decisions(CleanedFolder.load(made.folder))
    assert [(line.id, line.label) for line in found] == [(0, "birch, white"), (1, "ash")]


def test_names_of_images(tmp_path: Path) -> None:
    made = make(tmp_path, 12)
    cleaned = CleanedFolder.load(made.folder)
    names = ImageNames(cleaned)
    own = name_images(cleaned)[5]
    for name in (
        own,
        f"/home/ann/photos/{own}",
        f"C:\\photos\\{own}".replace("/", "\\"),
        f"https://host/photos/{own.replace(' ', '%20')}?size=large",
        "tree 5.png",
        "tree 5",
        "0000005-tree 5.png",
        "train/0000005-tree 5",
    ):
        assert names.find(name) == 5, name
    for name in ("tree 50.png", "0000006-tree 5.png", "other/tree 5.png", "ee 5.png", "png", "/"):
        assert names.find(name) is None, name


def test_a_name_that_could_be_two_images(tmp_path: Path) -> None:
    made = make(tmp_path, 12)
    file = made.folder / "samples.csv"
    file.write_text(file.read_text().replace("tree 4.png", "tree 5.png"))
    names = ImageNames(CleanedFolder.load(made.folder))
    assert names.find("tree 5.png") is None


def test_a_review_that_is_open_keeps_its_log(made: Made, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,label\n3,ash\n")
    with (
        DecisionLog(CleanedFolder.load(made.folder)),
        pytest.raises(StorageError, match="another `drpl review`"),
    ):
        drpl.import_labels(made.folder, tmp_path / "labels.csv", reviewer="Eve")


def test_a_new_cleaning_starts_from_another_tool(made: Made, tmp_path: Path) -> None:
    """The same reader as for `review --import`; what was decided here later holds."""
    cleaned = CleanedFolder.load(made.folder)
    (tmp_path / "export.json").write_text(json.dumps(export_by_hand(made)))
    earlier = read_earlier(tmp_path / "export.json")
    assert carry_over(cleaned, earlier) == (4, 4, [])
    assert carry_over(cleaned, earlier) == (4, 4, [])  # twice is once
    lines = read_decisions(cleaned)
    assert len(lines) == 4
    assert lines[0].why.startswith("decided earlier: kept the given label")
    (tmp_path / "labels.csv").write_text(
        f'path,label,time\n"{made.samples.at[2, "path"]}",ash,2020-01-01T00:00:00Z\nx.png,ash,\n'
    )
    holding, every, notes = carry_over(cleaned, read_earlier(tmp_path / "labels.csv"))
    assert (holding, every) == (0, 2)
    assert "first 'x.png'" in notes[0]
    assert len(read_decisions(cleaned)) == 4
