"""The readers of public data sets, on small files of the same formats."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.config.compose import default_preset
from drpl.data.readers.imagenet import by_variant
from drpl.data.sources import FILES, FOLDERS, SOURCES, VARIED, ReadOptions, load
from drpl.errors import DataError
from drpl.registry import DATASETS, Entry
from tests.support.datasets import (
    dump,
    idx_bytes,
    make_cifar10,
    make_cifar100,
    make_human,
    make_idx,
    make_imagenet,
    make_pictures,
    make_webvision,
    rows,
)


def test_every_name_has_a_reader_and_a_sentence() -> None:
    for entry in DATASETS.values():
        assert callable(entry.load())
        assert entry.about
    for target in (*FOLDERS.values(), *FILES.values()):
        assert callable(Entry(target, "").load())
    assert set(VARIED) < set(DATASETS)
    assert {f"FILE{suffix}" for suffix in FILES} < set(SOURCES)


def test_cifar10_by_name_and_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_cifar10(tmp_path / "cifar-10-batches-py")
    data = load("cifar10", ReadOptions(data_dir=tmp_path))
    assert data.test is not None
    assert (data.name, len(data.train), len(data.test), data.notes) == ("cifar10", 100, 10, ())
    assert data.train.classes[3] == "class 3"
    assert data.train.labels[:3].tolist() == [1, 2, 3]
    first = data.train.images.load(torch.tensor([20]))[0]
    assert torch.equal(first.flatten(), torch.from_numpy(rows(20, seed=2)[0]))  # red, green, blue
    assert data.std == (0.2023, 0.1994, 0.2010)
    assert load(str(root)).name == "cifar-10-batches-py"
    monkeypatch.setenv("DRPL_DATA", str(tmp_path))
    assert len(load("cifar10").train) == 100


def test_a_part_of_cifar10_says_so(tmp_path: Path) -> None:
    make_cifar10(tmp_path, batches=2)
    (note,) = load("cifar10", ReadOptions(data_dir=tmp_path)).notes
    assert "has batch 1, 2 of 5: 40 training images, not all" in note


def test_cifar100_has_fine_labels(tmp_path: Path) -> None:
    root = make_cifar100(tmp_path / "cifar-100-python")
    data = load("cifar100", ReadOptions(data_dir=tmp_path))
    assert data.train.classes[99] == "fine 99"
    assert data.train.labels[:3].tolist() == [99, 98, 97]
    assert load(str(root)).name == "cifar-100-python"


def test_human_labels(tmp_path: Path) -> None:
    make_cifar10(tmp_path / "cifar-10-batches-py", batches=2)
    read_options = ReadOptions(data_dir=tmp_path)
    clean = load("cifar10", read_options).train.labels.tolist() + [0] * 60
    worse = [(label + (k % 2)) % 10 for k, label in enumerate(clean)]
    path = tmp_path / "cifar-10n" / "CIFAR-10_human.pt"
    make_human(path, clean_label=clean, worse_label=worse, aggre_label=clean)
    data = load("cifar10n", read_options)
    assert data.name == "cifar10n:worse_label"
    assert data.train.truth is not None
    assert data.train.truth.labels.tolist() == clean[:40]
    assert int(data.train.truth.is_noisy(data.train.labels).sum()) == 20
    assert load("cifar10n:aggre_label", read_options).train.labels.tolist() == clean[:40]
    assert default_preset(data.name) == "cifar10"
    with pytest.raises(DataError, match="did you mean 'worse_label'"):
        load("cifar10n:worst_label", read_options)
    with pytest.raises(DataError, match="has no labels 'clean_label'"):
        load("cifar10n:clean_label", read_options)
    make_human(path, clean_label=clean[::-1], worse_label=worse)
    with pytest.raises(DataError, match="does not belong to these images"):
        load("cifar10n", read_options)
    make_human(path, worse_label=worse)
    with pytest.raises(DataError, match="should hold clean_label"):
        load("cifar10n", read_options)


def test_human_labels_of_cifar100(tmp_path: Path) -> None:
    make_cifar100(tmp_path / "cifar-100-python")
    clean, noisy = [99 - c for c in range(100)], list(range(100))
    make_human(tmp_path / "CIFAR-100_human.pt", clean_label=clean, noisy_label=noisy)
    data = load("cifar100n", ReadOptions(data_dir=tmp_path))
    assert (data.name, data.train.labels.tolist()) == ("cifar100n:noisy_label", noisy)


def test_the_papers_classes_of_imagenet() -> None:
    inside, outside = by_variant("")
    assert [label - 1 for label in inside[:10]] == [
        *(521, 737, 740, 660, 411),
        *(678, 626, 513, 859, 136),
    ]
    assert (len(inside), len(outside), len({*inside, *outside})) == (100, 900, 1000)
    assert len(by_variant("seed=7,classes=50")[0]) == 50
    assert by_variant("classes=100,seed=42")[0] == inside


def test_imagenet_by_name(tmp_path: Path) -> None:
    inside, outside = by_variant("classes=3")
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
    make_imagenet(tmp_path, by_variant("")[1][:3], batches=1)
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
        by_variant(f"ids={tmp_path / 'ids.txt'}")


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
        by_variant(variant)


@pytest.mark.parametrize("packed", [False, True])
def test_fashion_mnist(tmp_path: Path, packed: bool) -> None:
    root = make_idx(tmp_path / "fashion-mnist", packed)
    data = load("fashion-mnist", ReadOptions(data_dir=tmp_path))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (30, 30)
    assert data.train.images.shape == (1, 9, 9)
    assert data.train.classes[9] == "Ankle boot"
    assert load(str(root)).train.classes[0] == "T-shirt/top"
    root.rename(tmp_path / "mnist")
    assert load(str(tmp_path / "mnist")).train.classes[9] == "9"


def test_idx_files_that_cannot_be_used(tmp_path: Path) -> None:
    make_idx(tmp_path)
    images = tmp_path / "train-images-idx3-ubyte"
    right = images.read_bytes()
    for content, sentence in (
        (b"", "no idx file"),
        (b"\0\0\x0d\3" + right[4:], "no idx file"),
        (right[:10], "no idx file|should hold"),
        (right[:-1], "should hold 2430 bytes after its header, but has 2429"),
        (right + b"x", "more than 2430"),
        (b"\0\0\x08\3" + b"\xff" * 12 + right[16:], "should hold"),
        (idx_bytes(np.zeros((0, 9, 9))), "hold no images"),
        (idx_bytes(np.zeros((29, 9, 9))), "29 images but 30 labels"),
    ):
        images.write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            load(str(tmp_path))
    images.rename(tmp_path / "train-images-idx3-ubyte.gz")
    with pytest.raises(DataError, match="cannot read"):
        load(str(tmp_path))
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError, match="there is neither"):
        load(str(tmp_path))


def test_webvision(tmp_path: Path) -> None:
    root = make_webvision(tmp_path / "webvision")
    data = load("webvision", ReadOptions(data_dir=tmp_path))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (10, 3)  # without the class beyond the first 50
    assert data.train.images.shape == (3, 256, 256)
    assert data.train.classes == ("tench", "crane (n2)", "crane (n3)")
    assert data.train.paths is not None
    assert data.train.paths[0] == "google/q0000/0.jpg"
    assert data.train.images.load(torch.tensor([1, 9])).shape == (2, 3, 256, 256)
    google = load("webvision:google", ReadOptions(size=16, data_dir=tmp_path))
    assert (google.name, len(google.train)) == ("webvision:google", 5)
    assert google.train.images.shape == (3, 16, 16)
    assert load(str(root)).name == "webvision"
    with pytest.raises(DataError, match="did you mean 'google'"):
        load("webvision:goggle", ReadOptions(data_dir=tmp_path))
    (root / "google" / "q0000" / "0.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 10 images that .* lists are not there"):
        load("webvision", ReadOptions(data_dir=tmp_path))
    (root / "info" / "train_filelist_google.txt").write_text("a.jpg zero\n")
    with pytest.raises(DataError, match="line 1: wanted are a path and a label"):
        load("webvision", ReadOptions(data_dir=tmp_path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"labels": [0]}, "lacks 'data'"),
        ({"data": rows(2)}, "lacks 'labels'"),
        ({"data": rows(2)[:, :-1], "labels": [0, 1]}, "three square planes"),
        ({"data": rows(2).astype(float), "labels": [0, 1]}, "three square planes"),
        ({"data": "text", "labels": [0, 1]}, "three square planes"),
        ({"data": rows(2), "labels": [0]}, "one whole number for each of 2 images"),
        ({"data": rows(2), "labels": [0, "1"]}, "one whole number"),
        ({"data": rows(2), "labels": [0, 2**70]}, "one whole number"),
        ({"data": rows(2), "labels": [0, 11]}, "label 11 of image 1 is outside 0..9"),
        ({"data": rows(2, 16), "labels": [0, 1]}, "different sizes"),
    ],
)
def test_batches_that_cannot_be_used(tmp_path: Path, content: object, sentence: str) -> None:
    make_cifar10(tmp_path, batches=2)
    dump(tmp_path / "data_batch_2", content)
    if sentence.startswith("label"):
        (tmp_path / "data_batch_1").unlink()
    with pytest.raises(DataError, match=sentence):
        load(str(tmp_path))


def test_sets_that_are_not_there(tmp_path: Path) -> None:
    for name in ("cifar10", "cifar100", "cifar10n", "imagenet32", "fashion-mnist", "webvision"):
        with pytest.raises(DataError, match="--data-dir or DRPL_DATA"):
            load(name, ReadOptions(data_dir=tmp_path))
    with pytest.raises(DataError, match="get it from its makers"):
        load("imagenet32", ReadOptions(data_dir=tmp_path, download=True))
    with pytest.raises(DataError, match="digits has no variants"):
        load("digits:worse")
    dump(tmp_path / "batches.meta", {"label_names": 3})
    dump(tmp_path / "data_batch_1", {})
    with pytest.raises(DataError, match="should list the names"):
        load("cifar10", ReadOptions(data_dir=tmp_path))
    make_pictures(tmp_path / "photos", ["train/a/1.png", "train/b/2.png", "test/a/3.png"])
    assert load(str(tmp_path / "photos")).train.classes == ("a", "b")
