import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.sources import load, with_ood
from drpl.noise.write import write_noisy
from tests.conftest import Command

SMALL = [w for s in ("schedule.epochs=1", "width=4") for w in ("--set", s)]


def pictures(root: Path, names: tuple[str, ...], each: int, side: int) -> Path:
    draws = np.random.default_rng(side)
    for name in names:
        (root / name).mkdir(parents=True)
        for k in range(each):
            pixels = draws.integers(0, 256, (side, side, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{k}.png")
    return root


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """Four hundred pictures that are no digits."""
    x = np.random.default_rng(1).integers(0, 256, (400, 5, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "shapes.npz", x=x, y=np.arange(400) % 2, classes=["disc", "stroke"])
    return tmp_path / "shapes.npz"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_digits_with_noise(command: Command, shapes: Path) -> None:
    words = ("--noise", "uniform:0.2+ood:0.2", "--ood", str(shapes))
    answer = command("noise", "digits", *words, "-o", "noisy")
    assert answer.code == 0
    assert "train with: drpl train noisy/data.npz" in answer.out
    rows = rows_of(Path("noisy/labels.csv"))
    assert list(rows[0]) == [
        *("id", "path", "given_label", "true_label", "in_distribution", "source_class")
    ]
    foreign = [row for row in rows if row["in_distribution"] == "False"]
    manifest = json.loads(Path("noisy/manifest.json").read_text())
    assert len(foreign) == manifest["outside"]["images"] == manifest["parts"][1]["wrong"] > 0
    assert all(row["source_class"] in ("disc", "stroke") for row in foreign)
    assert all(row["true_label"] == "" for row in foreign)
    with Image.open("noisy/noise.png") as image:
        assert image.width > 1000
    again = load("noisy/data.npz").train
    assert again.truth is not None
    assert int(again.truth.is_noisy(again.labels).sum()) == manifest["wrong"]
    data = with_ood(load("digits"), str(shapes))
    write_noisy(data, words[1], Path("again"))
    for name in ("labels.csv", "data.npz", "manifest.json"):  # layouts may differ by a pixel
        assert (Path("noisy") / name).read_bytes() == (Path("again") / name).read_bytes()
    write_noisy(data, words[1], Path("other"), seed=2)
    assert Path("noisy/labels.csv").read_bytes() != Path("other/labels.csv").read_bytes()


def test_files_are_linked(command: Command, tmp_path: Path, shapes: Path) -> None:
    for part, each in (("train", 10), ("test", 3)):
        pictures(tmp_path / "own" / part, ("ash", "cedar tree"), each, 9)
    foreign = pictures(tmp_path / "foreign", ("rock", "sand"), 4, 17)
    words = ("noise", "own", "--noise", "uniform:0.2+ood:0.3")
    assert command(*words, "--ood", foreign, "-o", "noisy").code == 0
    links = sorted(p for p in Path("noisy/images/train").rglob("*.png"))
    assert len(links) == 20
    assert all(link.is_symlink() for link in links)
    rows = rows_of(Path("noisy/labels.csv"))
    for link, row in zip(sorted(links, key=lambda p: p.name), rows, strict=True):
        assert link.parent.name == row["given_label"]
        root = tmp_path / ("own" if row["in_distribution"] == "True" else "foreign")
        assert link.resolve() == (root / row["path"]).resolve()
    assert len(list(Path("noisy/images/test").rglob("*.png"))) == 6
    found = load("noisy/images")
    assert (len(found.train), len(found.test or ())) == (20, 6)
    own = tmp_path / "own"
    data = with_ood(load(str(own)), str(shapes))
    write_noisy(data, words[3], Path("written"), root=own, ood_root=own)
    links = list(Path("written/images/train").rglob("*.png"))
    assert sorted(link.is_symlink() for link in links) == [False] * 6 + [True] * 14


def test_vectors(command: Command) -> None:
    x = np.random.default_rng(1).normal(size=(40, 5))
    np.savez("vectors.npz", x=x, y=np.arange(40) % 2)
    assert command("noise", "vectors.npz", "--noise", "instance:0.2", "-o", "noisy").code == 0
    assert load("noisy/data.npz").train.images.load(torch.arange(40)).shape == (40, 5)


def test_confusion_and_what_it_is_for(command: Command, shapes: Path) -> None:
    """Learn look-alikes of digits and shapes; corrupt by them; train on that."""
    answer = command("confusion", "digits", "--ood", shapes, "-o", "t.npz", "-q", *SMALL)
    assert answer.code == 0
    assert "wrote t.npz: 12 classes" in answer.out
    spec = "nonuniform:0.2+ood-nonuniform:0.2,direction=row"
    answer = command(
        *("train", "digits", "--method", "cross_entropy", "--noise", spec, "--ood", shapes),
        *("--confusion", "t.npz", "--out", "run", "-q", *SMALL),
    )
    assert answer.code == 0
    manifest = json.loads(Path("run/noise.json").read_text())
    assert [round(part["realised"], 2) for part in manifest["parts"]] == [0.2, 0.2]
    with np.load("run/samples.npz") as samples:
        assert int((~samples["in_distribution"]).sum()) == manifest["outside"]["images"]
    assert command("confusion", "digits", "--from", "run", "-o", "u.npz").code == 0


def test_mistakes(mistake: Callable[..., str], shapes: Path) -> None:
    Path("full").mkdir()
    Path("full/file").touch()
    words = ("noise", "digits", "--noise")
    assert "is not an empty folder" in mistake(*words, "uniform:0.2", "-o", "full")
    assert "`drpl confusion DATA" in mistake(*words, "nonuniform:0.2", "-o", "n")
    assert "with --ood DATA" in mistake(*words, "ood:0.2", "-o", "n")
    assert "cannot read" in mistake(*words, "uniform:0.2", "-o", "n", "--confusion", "no.npz")
    assert "has no model.json" in mistake("confusion", "digits", "--from", ".", "-o", "t.npz")
    assert not Path("n").exists()
