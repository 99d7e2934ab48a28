"""ImageNet32 and ImageNet64 on small files of the same format."""

import json
from pathlib import Path

import pytest

from drpl.config.compose import default_preset
from drpl.data.readers.imagenet import choose_classes
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_imagenet


def test_the_papers_classes_of_imagenet() -> None:
    inside, outside = choose_classes("")
    assert [label - 1 for label in inside[:10]] == [
        *(521, 737, 740, 660, 411),
        *(678, 626, 513, 859, 136),
    ]
    assert (len(inside), len(outside), len({*inside, *outside})) == (100, 900, 1000)
    assert len(choose_classes("seed=7,classes=50")[0]) == 50
    assert choose_classes("classes=100,seed=42")[0] == inside
    probed, rest = choose_classes("skip=100,classes=25")  # other classes, to probe networks on
    assert [label - 1 for label in probed[:5]] == [716, 351, 936, 256, 635]
    assert (probed, len(rest)) == (outside[:25], 975)
    assert not {*probed} & {*inside, *rest}


def test_imagenet_by_name(tmp_path: Path) -> None:
    inside, outside = choose_classes("classes=3")
    labels = [*inside, *outside[:5]] * 2
    root = make_imagenet(tmp_path / "imagenet32", labels)
    lines = [f"n{label:08} {label} some_{label % 900}" for label in range(1, 1001)]
    (root / "map_clsloc.txt").write_text("\n".join(lines))
    data = load("imagenet32:classes=3", ReadOptions(data_dir=tmp_path))
    assert data.name == "imagenet32:classes=3"
    assert data.outside is not None
    assert data.test is not None
    assert (len(data.train), len(data.test), len(data.outside)) == (60, 6, 100)
    assert data.train.classes[0] == f"some {inside[0] % 900}"
    assert data.train.labels[:6].tolist() == [0, 1, 2, 0, 1, 2]
    assert data.outside.labels[:6].tolist() == [0, 1, 2, 3, 4, 0]
    assert data.train.images.shape == (3, 8, 8)
    assert any(name.endswith(")") for name in data.outside.classes)  # two of one name
    assert default_preset(data.name) == "imagenet32"
    assert [len(data.listed_classes), data.listed_classes[inside[0] - 1].wnid] == [
        1000,
        f"n{inside[0]:08}",
    ]
    assert data.listed_classes[inside[0] - 1].name == data.train.classes[0]
    assert data.listed_classes[outside[1] - 1].name == data.outside.classes[1]
    (tmp_path / "mine.txt").write_text(f"{inside[2]}\n{inside[0]}, {outside[1]}\n")
    own = load(f"imagenet32:ids={tmp_path / 'mine.txt'}", ReadOptions(data_dir=tmp_path))
    assert own.train.labels[:3].tolist() == [1, 0, 2]


def test_roles_of_classes_in_a_file(tmp_path: Path) -> None:
    root = make_imagenet(tmp_path / "mini", [1, 2, 3, 4], batches=3)
    roles = {
        str(label): {"wnid": f"n{label}", "words": f"word {label}, more", "role": role}
        for label, role in ((4, "id"), (1, "ood"), (2, "id"), (3, "ood"))
    }
    (root / "classes.json").write_text(json.dumps(roles))
    data = load(str(root))
    assert (data.name, data.train.classes) == ("mini", ("word 2", "word 4"))
    assert data.outside is not None
    assert data.outside.classes == ("word 1", "word 3")
    assert "3 of 10 batches" in data.notes[0]
    make_imagenet(tmp_path, [1, 2])
    (tmp_path / "classes.json").write_text(json.dumps(roles))
    with pytest.raises(DataError, match=r"leave 'classes=3' out"):
        load("imagenet64:classes=3", ReadOptions(data_dir=tmp_path))
    row = roles["1"]
    for content in (
        *("[]", "{", '{"1": {"wnid": "n1"}}', '{"x": {}}'),
        json.dumps({"1001": row}),
        json.dumps({"1": {**row, "role": "both"}}),
        json.dumps({"1": {**row, "words": 3}}),
    ):
        (root / "classes.json").write_text(content)
        with pytest.raises(DataError, match=r"classes\.json"):
            load(str(root))


def test_imagenet_files_that_cannot_be_used(tmp_path: Path) -> None:
    make_imagenet(tmp_path, [1001, 2], batches=1)
    with pytest.raises(DataError, match="should be 1 to 1000"):
        load(str(tmp_path))
    make_imagenet(tmp_path, choose_classes("")[1][:3], batches=1)
    with pytest.raises(DataError, match="no training image of the 100 classes"):
        load(str(tmp_path))
    (tmp_path / "map_clsloc.txt").write_text("n01 1 kit_fox\nn02 two setter\n")
    with pytest.raises(DataError, match="line 2: wanted are a WordNet id"):
        load(str(tmp_path))
    (tmp_path / "train_data_batch_1").rename(tmp_path / "train_data_batch_11")
    with pytest.raises(DataError, match="has none of train_data_batch_1 to"):
        load(str(tmp_path))
    (tmp_path / "ids.txt").write_text("3 3 4")
    with pytest.raises(DataError, match="none twice"):
        choose_classes(f"ids={tmp_path / 'ids.txt'}")


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        ("sed=1", "did you mean 'seed'"),
        ("seed=x", "a whole number is wanted"),
        ("ids=nowhere.txt", "cannot read nowhere.txt"),
        ("seed=99999999999", "a whole number is wanted"),
    ],
)
def test_variants_of_imagenet_that_are_none(variant: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        choose_classes(variant)
