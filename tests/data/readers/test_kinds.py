"""Data in the formats that other tools leave: shards, boxes, saved data sets, names with labels."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.address import is_there, split_address
from drpl.data.decoding import load_thumbnail, read_header
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError, DrplError

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200), "green": (30, 180, 30)}
SIDE = 24


def paint(name: str, side: int = SIDE) -> Image.Image:
    return Image.new("RGB", (side, side), COLOURS[name])


def encode(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def find_colour(pixels: torch.Tensor) -> str:
    """Which colour an image has."""
    mean = pixels.float().mean((1, 2)).numpy()
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))


def find_colours(data: Any) -> list[str]:
    return [find_colour(one) for one in data.images.load(torch.arange(len(data)))]


def name_labels(data: Any) -> list[str]:
    return [data.classes[i] for i in data.labels.tolist()]


# --- folders ---


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    for k, name in enumerate(("warm/red", "cold/blue", "cold/green", "cold/blue")):
        place = tmp_path / "photos" / name
        place.mkdir(parents=True, exist_ok=True)
        paint(place.name).save(place / f"{place.name}_{k}.png")
    paint("red").save(tmp_path / "photos" / "loose.png")
    return tmp_path / "photos"


def test_classes_at_a_depth(nested: Path) -> None:
    data = load(str(nested), ReadOptions(depth=2))
    assert data.train.classes == ("cold/blue", "cold/green", "warm/red")
    assert find_colours(data.train) == ["blue", "blue", "green", "red"]
    assert data.notes == ("left out 1 image file above the folders that name classes: loose.png",)
    assert load(str(nested)).train.classes == ("cold", "warm")
    with pytest.raises(DataError, match="no sub-folders at depth 3"):
        load(str(nested), ReadOptions(depth=3))
    with pytest.raises(DataError, match="from 1 to"):
        ReadOptions(depth=0)


def test_only_some_classes(nested: Path) -> None:
    options = ReadOptions(depth=2, classes=("warm/red", "cold/blue"))
    data = load(str(nested), options)
    assert data.train.classes == ("cold/blue", "warm/red")
    assert len(data.train) == 3
    assert "left out 1 class that was not chosen: cold/green" in data.notes
    with pytest.raises(DataError, match="no class is named 'cold/blu'; did you mean"):
        load(str(nested), ReadOptions(depth=2, classes=("cold/blu",)))


def test_one_folder_read_in_two_ways_is_cached_apart(nested: Path) -> None:
    kept = {"hold": "cache", "cache": nested.parent / "kept"}
    for options in ({"depth": 2}, {}, {"depth": 2}):
        data = load(str(nested), ReadOptions(**kept, **options))  # type: ignore[arg-type]
        assert len(data.train.classes) == (3 if options else 2)


def test_some_classes_of_a_named_set() -> None:
    data = load("digits", ReadOptions(classes=("3", "5")))
    assert data.train.classes == ("3", "5")
    assert data.test is not None
    assert data.test.classes == ("3", "5")
    assert "training images of classes that were not chosen" in data.notes[0]


def test_labels_in_the_names_of_files(nested: Path) -> None:
    data = load(str(nested), ReadOptions(label_pattern=r"(?P<label>[a-z]+)_\d+\.png$"))
    assert data.train.classes == ("blue", "green", "red")
    assert name_labels(data.train) == find_colours(data.train)
    note = "left out 1 image whose path the label pattern does not match: loose.png"
    assert data.notes == (note,)


@pytest.mark.parametrize("pattern", ["(", "no group", "(a)(b)"])
def test_patterns_that_say_no_label(nested: Path, pattern: str) -> None:
    with pytest.raises(DrplError, match="the label pattern"):
        load(str(nested), ReadOptions(label_pattern=pattern))


def test_parts_by_a_pattern(nested: Path) -> None:
    for part in ("train", "test"):
        (nested.parent / "both" / part).mkdir(parents=True)
        for name in ("red", "blue"):
            paint(name).save(nested.parent / "both" / part / f"{name}-1.png")
    data = load(str(nested.parent / "both"), ReadOptions(label_pattern="([a-z]+)-"))
    assert data.test is not None
    assert data.test.paths == ("test/blue-1.png", "test/red-1.png")
    assert data.train.paths == ("train/blue-1.png", "train/red-1.png")


def test_folders_that_only_the_test_part_has_are_said(tmp_path: Path) -> None:
    for place in ("train/red", "train/blue", "test/red", "test/green"):
        (tmp_path / place).mkdir(parents=True)
        paint(Path(place).name).save(tmp_path / place / "1.png")
    notes = load(str(tmp_path)).notes
    assert any("1 folder of the test part that is no class" in note for note in notes)


# --- shards ---


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))


def make_shard(path: Path, start: int = 0, prefix: str = "") -> None:
    members: dict[str, bytes] = {}
    for k, name in enumerate((*COLOURS, *COLOURS)):
        members[f"{prefix}{start + k:04}.png"] = encode(paint(name))
        members[f"{prefix}{start + k:04}.cls"] = f"{name}\n".encode()
    write_tar(path, members)


def test_shards(tmp_path: Path) -> None:
    make_shard(tmp_path / "set-train-000.tar", prefix="./")
    make_shard(tmp_path / "set-train-001.tar", 6)
    make_shard(tmp_path / "set-val-000.tar", 12)
    data = load(str(tmp_path))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (12, 6)
    assert data.train.classes == ("blue", "green", "red")
    assert name_labels(data.train) == find_colours(data.train)
    assert name_labels(data.test) == find_colours(data.test)
    assert data.train.paths is not None
    assert data.train.paths[6] == "set-train-001.tar#0006.png"
    assert is_there(tmp_path / data.train.paths[6])
    assert load_thumbnail(tmp_path / data.train.paths[0], 64).size == (SIDE, SIDE)
    packed = load(str(tmp_path), ReadOptions(hold="cache", cache=tmp_path / ".kept"))
    assert packed.train.identify() == data.train.identify()
    make_shard(tmp_path / "set-train-000.tar", 30)
    assert load(str(tmp_path)).train.identify() != data.train.identify()


def test_one_shard_with_json(tmp_path: Path) -> None:
    members = {}
    for k, name in enumerate(COLOURS):
        members[f"a.b/{k}.PNG"] = encode(paint(name))
        members[f"a.b/{k}.json"] = json.dumps({"label": name, "by": f"me {k}"}).encode()
    members |= {"odd.bin": b"", "a.b/9.json": b"{}"}
    write_tar(tmp_path / "one.tar", members)
    data = load(str(tmp_path / "one.tar"))
    assert name_labels(data.train) == find_colours(data.train) == [*COLOURS]
    assert data.train.columns == {"by": ("me 0", "me 1", "me 2")}
    note = "left out 2 members that belong to no image: one.tar#odd.bin, one.tar#a.b/9.json"
    assert data.notes == (note,)


def test_members_that_lead_out_of_an_archive(tmp_path: Path) -> None:
    picture = encode(paint("red"))
    make_shard(tmp_path / "set.tar")
    with tarfile.open(tmp_path / "set.tar", "a") as archive:
        for name in ("../../evil.png", "/etc/evil.png"):
            about = tarfile.TarInfo(name)
            about.size = len(picture)
            archive.addfile(about, io.BytesIO(picture))
        link = tarfile.TarInfo("9999.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    data = load(str(tmp_path / "set.tar"))
    assert len(data.train) == 6
    note = "left out 2 members whose names lead out of their archive: "
    assert data.notes[0] == f"{note}set.tar#../../evil.png, set.tar#/etc/evil.png"
    assert not (tmp_path.parent.parent / "evil.png").exists()


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"nothing" * 300)
    with pytest.raises(DataError, match="no tar archive that can be read"):
        load(str(tmp_path / "bad.tar"))
    write_tar(tmp_path / "big" / "a.tar", {"1.png": encode(paint("red")), "1.cls": b"x" * 2**21})
    with pytest.raises(DataError, match="at most 1,048,576 are read of a label"):
        load(str(tmp_path / "big"))
    (tmp_path / "packed").mkdir()
    make_shard(tmp_path / "packed" / "a.tar")
    (tmp_path / "packed" / "b.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"b.tar.gz is compressed; unpack it"):
        load(str(tmp_path / "packed"))


def test_webdataset_writes_what_is_read(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "made.tar")) as sink:
        for k, name in enumerate((*COLOURS, *COLOURS)):
            sink.write({"__key__": f"{k:05}", "png": paint(name), "cls": k % 3})
    data = load(str(tmp_path / "made.tar"))
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert find_colours(data.train) == [*COLOURS, *COLOURS]


# --- boxes ---


@pytest.fixture
def scene() -> Image.Image:
    """Three colours side by side."""
    image = Image.new("RGB", (3 * SIDE, SIDE))
    for k, name in enumerate(COLOURS):
        image.paste(paint(name), (k * SIDE, 0))
    return image


def list_boxes() -> list[tuple[str, list[float]]]:
    return [(name, [k * SIDE, 0, SIDE, SIDE]) for k, name in enumerate(COLOURS)]


def write_coco(path: Path, scene: Image.Image, **changes: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scene.save(path.parent / "1.png")
    content = {
        "images": [{"id": 1, "file_name": "1.png"}],
        "categories": [{"id": k, "name": name} for k, name in enumerate(COLOURS)],
        "annotations": [
            {"id": 10 + k, "image_id": 1, "category_id": k, "bbox": box}
            for k, (_, box) in enumerate(list_boxes())
        ],
    }
    path.write_text(json.dumps(content | changes))


def test_coco(tmp_path: Path, scene: Image.Image) -> None:
    write_coco(tmp_path / "boxes.json", scene)
    data = load(str(tmp_path / "boxes.json"), ReadOptions(size=16))
    assert name_labels(data.train) == find_colours(data.train) == [*COLOURS]
    assert data.train.paths is not None
    assert data.train.paths[1] == "1.png#xywh=24,0,24,24"
    assert data.train.columns == {
        "file": ("1.png",) * 3,
        "box": ("0,0,24,24", "24,0,24,24", "48,0,24,24"),
        "annotation": ("10", "11", "12"),
    }
    assert not data.notes
    assert read_header(str(tmp_path / data.train.paths[1])) == (SIDE, False)


def test_the_layout_of_coco(tmp_path: Path, scene: Image.Image) -> None:
    write_coco(tmp_path / "annotations" / "instances_val2017.json", scene)
    (tmp_path / "val2017").mkdir()
    (tmp_path / "annotations" / "1.png").rename(tmp_path / "val2017" / "1.png")
    data = load(str(tmp_path / "annotations" / "instances_val2017.json"))
    assert data.root == tmp_path / "val2017"
    assert find_colours(data.train) == [*COLOURS]


def test_what_is_not_read_of_coco_is_said(tmp_path: Path, scene: Image.Image) -> None:
    images = [
        {"id": 1, "file_name": "1.png"},
        {"id": 2, "file_name": "gone.png"},
        {"id": 3, "file_name": "../../etc/passwd"},
        {"id": 4, "file_name": "/etc/passwd"},
        {"id": 5, "file_name": "empty.png"},
    ]
    boxes = [box for _, box in list_boxes()]
    annotations: list[dict[str, Any]] = [
        {"id": k, "image_id": 1, "category_id": k, "bbox": box} for k, box in enumerate(boxes)
    ]
    annotations += [
        {"id": 10 + k, "image_id": k, "category_id": 0, "bbox": boxes[0]} for k in (2, 3, 4)
    ]
    annotations += [
        {"id": 20, "image_id": 1, "category_id": 0, "bbox": [5, 5, 0, 9]},
        {"id": 21, "image_id": 1, "category_id": 0, "bbox": boxes[0], "iscrowd": 1},
        {"id": 22, "image_id": 1, "category_id": 0},
        {"id": 23, "image_id": 1, "category_id": 0, "bbox": [5, 5, float("inf"), 9]},
    ]
    write_coco(tmp_path / "boxes.json", scene, images=images, annotations=annotations)
    data = load(str(tmp_path / "boxes.json"))
    assert len(data.train) == 3
    assert set(data.notes) == {
        "left out 1 box around a crowd: 21",
        "left out 1 annotation without a box: 22",
        "left out 1 image without a box: empty.png",
        "left out 1 image that is listed but not there: gone.png",
        "left out 2 images whose names lead out of their folder: ../../etc/passwd, /etc/passwd",
        "left out 2 boxes of less than 2 pixels a side: 1.png (20), 1.png (23)",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "not in COCO's format"),
        ("{", "cannot read"),
        ("[" * 100_000, "cannot read"),
        ('{"images": [], "annotations": [], "categories": []}', "no annotation with a box"),
        (
            '{"images": [{"id": 1, "file_name": "x.png"}], "categories": [], "annotations": '
            '[{"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 9, 9]}]}',
            "annotation 1 is of an image or category that is not there",
        ),
        (
            '{"images": [{"id": 1, "file_name": "x.png"}], "categories": [{"id": 3, "name": "a"}], '
            '"annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 9, 9]}]}',
            "x.png is in none of",
        ),
        ('{"images": [{}], "annotations": [], "categories": []}', "cannot read"),
    ],
)
def test_json_that_is_no_coco(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match=sentence):
        load(str(tmp_path / "x.json"))


def test_giant_json(tmp_path: Path, scene: Image.Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpl.data.readers.coco.LARGEST", 100)
    write_coco(tmp_path / "x.json", scene)
    with pytest.raises(DataError, match="at most 100 are read, so split it"):
        load(str(tmp_path / "x.json"))


def write_voc(root: Path, scene: Image.Image, name: str = "1") -> Path:
    for place in ("Annotations", "JPEGImages"):
        (root / place).mkdir(parents=True, exist_ok=True)
    scene.save(root / "JPEGImages" / f"{name}.png")
    objects = "".join(
        f"<object><name>{label}</name><bndbox><xmin>{x + 1}</xmin><ymin>1</ymin>"
        f"<xmax>{x + w}</xmax><ymax>{h}</ymax></bndbox></object>"
        for label, (x, _, w, h) in list_boxes()
    )
    text = f"<annotation><filename>{name}.png</filename>{objects}</annotation>"
    (root / "Annotations" / f"{name}.xml").write_text(text)
    return root / "Annotations" / f"{name}.xml"


def test_voc(tmp_path: Path, scene: Image.Image) -> None:
    for name in ("1", "2", "3"):
        write_voc(tmp_path, scene, name)
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("1\n")
    (lists / "val.txt").write_text("2\n")
    data = load(str(tmp_path))
    assert data.test is not None
    assert name_labels(data.train) == find_colours(data.train) == [*COLOURS]
    assert data.test.paths is not None
    assert data.test.paths[0] == "JPEGImages/2.png#xywh=0,0,24,24"
    assert data.train.columns["box"] == ("0,0,24,24", "24,0,24,24", "48,0,24,24")
    assert "left out 1 annotation that no list in ImageSets/Main names: 3.xml" in data.notes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('<!DOCTYPE a [<!ENTITY b "bbb">]><a>&b;</a>', "document type, which is not read"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document type, which is not read"),
        ("<a>", "cannot read"),
        ("<annotation><object><name>x</name></object></annotation>", "no bndbox"),
        ("<annotation/>", "has no box"),
    ],
)
def test_xml_that_is_no_voc(tmp_path: Path, scene: Image.Image, text: str, sentence: str) -> None:
    write_voc(tmp_path, scene).write_text(text)
    with pytest.raises(DataError, match=sentence):
        load(str(tmp_path))


def test_voc_that_leads_out_of_its_folder(tmp_path: Path, scene: Image.Image) -> None:
    write_voc(tmp_path, scene, "1")
    path = write_voc(tmp_path, scene, "2")
    path.write_text(path.read_text().replace("2.png", "../../secret.png"))
    data = load(str(tmp_path))
    assert len(data.train) == 3
    assert any("1 image whose name leads out of its folder" in note for note in data.notes)


def test_a_region_outside_of_its_image_is_a_broken_image(tmp_path: Path) -> None:
    paint("red").save(tmp_path / "1.png")
    paint("blue").save(tmp_path / "a#b.png")
    text = "path,label\n1.png,x\n1.png#xywh=500,0,9,9,y\na#b.png,y\n"
    (tmp_path / "set.csv").write_text(text.replace("9,9,y", '9,9",y').replace("1.png#", '"1.png#'))
    data = load(str(tmp_path / "set.csv"), ReadOptions(skip_broken=True))
    assert find_colours(data.train) == ["red", "blue"]
    assert "its region is outside of the image of 24 x 24 pixels" in data.notes[0]
    assert split_address(tmp_path / "a#b.png")[1] == ""
    with pytest.raises(DataError, match="cannot be read"):
        load(str(tmp_path / "set.csv"))


# --- Hugging Face ---


def test_images_with_metadata(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for name in COLOURS:
            paint(name).save(tmp_path / part / f"{name}.png")
        rows = "".join(f"{name}.png,{name},{part}\n" for name in [*COLOURS][:2])
        (tmp_path / part / "metadata.csv").write_text(f"file_name,label,note\n{rows}")
    data = load(str(tmp_path))
    assert data.test is not None
    assert data.test.paths == ("test/red.png", "test/blue.png")
    assert data.train.columns == {"note": ("train", "train")}
    note = "left out 2 images that the metadata do not name: test/green.png, train/green.png"
    assert data.notes[0] == note


def test_metadata_without_labels(tmp_path: Path) -> None:
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        paint(name).save(tmp_path / name / "1.png")
    lines = [json.dumps({"file_name": f"{n}/1.png", "by": n[0]}) for n in ("red", "blue")]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    data = load(str(tmp_path))
    assert name_labels(data.train) == ["red", "blue"]
    assert data.train.columns == {"by": ("r", "b")}
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "1.png"}')
    with pytest.raises(DataError, match="known name for the label"):
        load(str(tmp_path))


def test_a_saved_data_set(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=[*COLOURS]),
            "by": datasets.Value("string"),
        }
    )

    def make(count: int) -> Any:
        names = [*COLOURS] * count
        table = {
            "image": [paint(name) for name in names],
            "label": [[*COLOURS].index(name) for name in names],
            "by": [f"me {k}" for k in range(len(names))],
        }
        return datasets.Dataset.from_dict(table, features=features)

    make(4).shuffle(seed=1).save_to_disk(str(tmp_path / "one"), num_shards=2)
    data = load(str(tmp_path / "one"))
    assert data.train.classes == ("blue", "green", "red")
    assert name_labels(data.train) == find_colours(data.train)
    assert len(data.train) == 12
    assert data.train.columns["by"] != tuple(f"me {k}" for k in range(12))  # it was shuffled
    parts = {"train": make(3), "validation": make(1), "extra": make(1)}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "both"))
    data = load(str(tmp_path / "both"))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (9, 3)
    assert name_labels(data.test) == find_colours(data.test)
    assert "left out 1 part that is neither train nor test nor val: extra" in data.notes
    file = tmp_path / "one" / "data-00000-of-00002.arrow"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(DataError, match="no Arrow file that can be read"):
        load(str(tmp_path / "one"))


def test_a_saved_data_set_with_several_labels(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=[*COLOURS])
    features = datasets.Features({"image": datasets.Image(), "labels": datasets.Sequence(names)})
    table = {"image": [paint("red")] * 3, "labels": [[0, 2], [], [1]]}
    datasets.Dataset.from_dict(table, features=features).save_to_disk(str(tmp_path / "x"))
    data = load(str(tmp_path / "x"), ReadOptions(several=True))
    assert data.train.tags is not None
    assert data.train.tags.int().tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]


def test_a_saved_data_set_that_names_other_files(tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../../etc/passwd"}]}')
    with pytest.raises(DataError, match="which is no file beside it"):
        load(str(tmp_path))
