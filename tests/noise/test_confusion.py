from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drpl.data.dataset import DatasetSplits, ListedClass, in_memory
from drpl.errors import ConfigError, DataError
from drpl.experiments.confusion import (
    collect_confusion,
    halve,
    learn_confusion,
    list_mistakes,
    make_task,
)
from drpl.noise.confusion import Confusion, average_confusion, count_confusion, read_confusion
from drpl.noise.inject import corrupt
from drpl.runs.experiment import Execution
from tests.support.tiny import tiny_pixels

QUICK = {"schedule": {"epochs": 2, "batch_size": 16}, "width": 4, "flip": False}


@pytest.fixture
def open_tiny(tiny: DatasetSplits) -> DatasetSplits:
    """The tiny problem with two classes more outside."""
    pixels, labels = tiny_pixels(45, "outside")
    return replace(tiny, outside=in_memory(255 - pixels, labels % 2, ("dark", "light")))


def test_round_trip(tiny: DatasetSplits, tmp_path: Path) -> None:
    probs = torch.eye(3)[torch.tensor([0, 1, 1, 2, 0, 2])]
    found = count_confusion(probs, torch.tensor([0, 0, 1, 2, 2, 2]), ("ash", "birch", "cèdre"))
    wanted = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [1 / 3, 0.0, 2 / 3]])
    assert torch.allclose(found.matrix, wanted.double())
    found.write(tmp_path / "t.npz")
    again = read_confusion(tmp_path / "t.npz", tiny)
    assert again.classes == found.classes
    assert torch.equal(again.matrix, found.matrix)
    assert next(iter(list_mistakes(found, 2))) == ("ash", "birch", 0.5)
    mean = average_confusion([found, replace(found, matrix=torch.eye(3, dtype=torch.float64))])
    assert torch.allclose(mean.matrix.sum(1), torch.ones(3, dtype=torch.float64))
    assert float(mean.matrix[0, 1]) == pytest.approx(0.25)


def test_classes_are_matched_by_name() -> None:
    matrix = torch.arange(9.0).view(3, 3)
    part = Confusion(matrix, ("a", "b", "c")).among(("c", "a"), ("b",))
    assert torch.allclose(part, torch.tensor([[7.0], [1.0]]).double() + 1e-5)
    with pytest.raises(ConfigError, match=r"has no class 'z' \(2 missing\)"):
        Confusion(matrix, ("a", "b", "c")).among(("z", "a"), ("y",))


def test_halves_share_every_class(tiny: DatasetSplits) -> None:
    first, second = halve(tiny.train, 0)
    assert torch.bincount(first.labels).tolist() == torch.bincount(second.labels).tolist()
    swapped = halve(tiny.train, 1)
    assert torch.equal(
        swapped[0].images.load(torch.arange(36)), second.images.load(torch.arange(36))
    )


def test_outside_classes_are_classes_too(open_tiny: DatasetSplits) -> None:
    for data in (open_tiny, replace(open_tiny, test=None)):
        task = make_task(data, 0)
        assert task.test is not None
        assert task.train.classes == ("top", "left", "middle", "dark", "light")
        assert task.test.classes == task.train.classes
        assert torch.bincount(task.test.labels, minlength=5).min() > 0
        assert len(task.train.images.load(torch.arange(len(task.train)))) == len(task.train)
    clash = replace(open_tiny, outside=open_tiny.train)
    with pytest.raises(DataError, match="class 'left' is both"):
        make_task(clash, 0)


def test_learning_and_collecting(
    open_tiny: DatasetSplits, tiny: DatasetSplits, tmp_path: Path
) -> None:
    found = learn_confusion(open_tiny, networks=2, settings=QUICK, execution=Execution(quiet=True))
    assert found.classes == ("top", "left", "middle", "dark", "light")
    assert torch.allclose(found.matrix.sum(1), torch.ones(5, dtype=torch.float64))
    kept = learn_confusion(tiny, networks=1, settings=QUICK, runs=tmp_path)
    again = collect_confusion(tiny, [tmp_path / "network-1"])
    assert torch.equal(again.matrix, kept.matrix)
    with pytest.raises(DataError, match="has no test set"):
        collect_confusion(replace(tiny, test=None), [tmp_path / "network-1"])


def test_probability_files(tiny: DatasetSplits, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, probs=np.eye(3)[[0, 1, 2, 1]], labels=np.array([0, 1, 2, 2]))
    found = collect_confusion(tiny, [path])
    assert found.classes == tiny.train.classes
    assert found.matrix[2].tolist() == [0, 0.5, 0.5]
    np.savez(path, probs=np.eye(2), labels=np.arange(2), classes=np.array(["a", "b"]))
    assert collect_confusion(tiny, [path]).classes == ("a", "b")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"probs": np.eye(3)}, "cannot read arrays probs and labels"),
        ({"probs": np.eye(2), "labels": np.arange(2)}, r"p\.npz: its 2 classes .* tiny has 3"),
        ({"probs": np.ones(3), "labels": np.arange(3)}, r"probs has the shape \(3,\)"),
        (
            {"probs": np.eye(3), "labels": np.arange(3), "classes": np.array(["a", "b"])},
            "probabilities for 2 classes",
        ),
        ({"probs": np.eye(3), "labels": np.arange(1, 4)}, r"labels must be 0\.\.2, got 1\.\.3"),
        ({"probs": np.eye(3), "labels": np.array([0, 0, 2])}, "class 'left' has no held-out"),
    ],
)
def test_wrong_probability_files(
    tiny: DatasetSplits, tmp_path: Path, content: dict[str, np.ndarray], sentence: str
) -> None:
    np.savez(tmp_path / "p.npz", **content)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=sentence):
        collect_confusion(tiny, [tmp_path / "p.npz"])


def imagenet() -> DatasetSplits:
    """Four classes in the order of the files, of which two are to be learnt."""
    pixels = torch.zeros(4, 1, 1, 1, dtype=torch.uint8)
    inside = in_memory(pixels, torch.arange(4) % 2, ("dock", "candle"))
    outside = in_memory(pixels, torch.arange(4) % 2, ("kit fox", "setter"))
    listed = (("kit fox", "n2"), ("candle", "n4"), ("setter", "n3"), ("dock", "n1"))
    data = DatasetSplits("im", inside, None, (0.5,), (0.5,), outside)
    return replace(data, listed_classes=tuple(ListedClass(*one) for one in listed))


def test_a_plain_matrix_has_the_classes_of_the_files(tmp_path: Path) -> None:
    """The authors' `ConfMatrix.npy`: no names, in the order in which the files number classes."""
    path, matrix = tmp_path / "ConfMatrix.npy", np.arange(16.0).reshape(4, 4)
    np.save(path, matrix)
    found = read_confusion(path, imagenet())
    assert found.classes == ("kit fox", "candle", "setter", "dock")
    assert torch.equal(found.matrix, torch.from_numpy(matrix))  # as it is: not normalised
    assert float(found.among(["dock"], ["candle"])) == pytest.approx(13, abs=1e-4)
    sorted_ids = read_confusion(path, imagenet(), "wordnet")
    assert sorted_ids.classes == ("dock", "kit fox", "setter", "candle")
    again = collect_confusion(imagenet(), [path], "wordnet")
    assert again.classes == sorted_ids.classes
    assert torch.allclose(again.matrix.sum(1), torch.ones(4, dtype=torch.float64))
    np.save(path, matrix[:2, :2])
    assert read_confusion(path, imagenet()).classes == ("dock", "candle")
    np.save(path, matrix[:3, :3])
    with pytest.raises(ConfigError, match="its 3 classes have no names, and im has 4 or 2"):
        read_confusion(path, imagenet())
    np.save(path, matrix)
    unlisted = replace(imagenet(), listed_classes=())  # its own classes, then those outside
    assert read_confusion(path, unlisted).classes == ("dock", "candle", "kit fox", "setter")
    with pytest.raises(ConfigError, match="does not say which WordNet ids"):
        read_confusion(path, unlisted, "wordnet")


def test_wordnet_ids_become_names(tmp_path: Path) -> None:
    ids = np.array(["n1", "n2", "n3", "n4"])
    np.savez(tmp_path / "t.npz", matrix=np.eye(4), classes=ids)
    wanted = ("dock", "kit fox", "setter", "candle")
    assert read_confusion(tmp_path / "t.npz", imagenet()).classes == wanted
    answers = {"probs": np.eye(4)[[0, 1, 2, 0]], "labels": np.arange(4)}
    np.savez(tmp_path / "p.npz", classes=ids, **answers)  # type: ignore[arg-type]
    assert collect_confusion(imagenet(), [tmp_path / "p.npz"]).classes == wanted
    np.savez(tmp_path / "p.npz", **answers)  # type: ignore[arg-type]
    named = collect_confusion(imagenet(), [tmp_path / "p.npz"], "wordnet")
    assert named.classes == wanted
    assert float(named.among(["candle"], ["dock"])) == pytest.approx(1, abs=1e-4)
    assert collect_confusion(imagenet(), [tmp_path / "p.npz"]).classes[0] == "kit fox"


def test_a_plain_matrix_draws_noise(tmp_path: Path) -> None:
    table = np.eye(4)
    table[3, 1] = table[1, 3] = 1  # by the files' numbers: dock and candle
    np.save(tmp_path / "c.npy", table)
    noisy, manifest = corrupt(imagenet(), "nonuniform:0.5", 1, tmp_path / "c.npy")
    assert manifest["wrong"] == 2
    assert bool((noisy.train.labels != imagenet().train.labels).any())


def test_wrong_matrix_files(tiny: DatasetSplits, tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.eye(2))
    np.save(tmp_path / "flat.npy", np.ones((3, 2)))
    (tmp_path / "t.txt").write_text("no array")
    for name in ("t.npy", "flat.npy", "t.txt", "nowhere.npz"):
        with pytest.raises(ConfigError, match="cannot read a confusion matrix from"):
            read_confusion(tmp_path / name, tiny)
    with pytest.raises(ConfigError, match="each of its 2 classes"):
        Confusion(torch.eye(3), ("a", "b"))
    with pytest.raises(ConfigError, match="negative or NaN"):
        Confusion(-torch.eye(2), ("a", "b"))
