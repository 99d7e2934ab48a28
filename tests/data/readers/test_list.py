from pathlib import Path

import pytest

from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_pictures

NAMES = ["a/1.png", "a/2.png", "b/3.png", "b/4.png"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_pictures(tmp_path, NAMES)
    return tmp_path


def test_a_list_without_splits(home: Path) -> None:
    lines = ["label,path", *(f"{10 - k % 2},{name}" for k, name in enumerate(NAMES))]
    (home / "my set.csv").write_text("\ufeff" + "\r\n".join(lines) + "\r\n", "utf-8")
    data = load(str(home / "my set.csv"), ReadOptions(size=8))
    assert (data.name, data.train.classes, data.test) == ("my set", ("9", "10"), None)
    assert data.train.labels.tolist() == [1, 0, 1, 0]
    assert data.train.images.shape == (3, 8, 8)
    assert data.train.paths == tuple(NAMES)


def test_a_list_with_splits(home: Path) -> None:
    rows = [("a/1.png", "x", "train"), ("a/2.png", "y", "train"), ("b/3.png", "x", "val")]
    text = "\n".join(map(",".join, [("path", "label", "split"), *rows]))
    (home / "set.csv").write_text(text)
    data = load(str(home / "set.csv"))
    assert data.test is not None
    assert (len(data.train), len(data.test), data.notes) == (2, 1, ())
    (home / "set.csv").write_text(f"{text}\nb/4.png,y,test")
    both = load(str(home / "set.csv"))
    assert both.test is not None
    assert both.test.paths == ("b/4.png",)
    assert "the 1 of val are not used" in both.notes[0]


def test_parquet(home: Path) -> None:
    pytest.importorskip("pyarrow")
    import pandas as pd

    pd.DataFrame({"path": NAMES, "label": [0, 1, 0, 1]}).to_parquet(home / "set.parquet")
    data = load(str(home / "set.parquet"))
    assert data.train.labels.tolist() == [0, 1, 0, 1]
    (home / "set.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="cannot read"):
        load(str(home / "set.parquet"))


def test_parquet_without_its_engine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> None:
        raise ImportError("no engine")

    monkeypatch.setattr("pandas.read_parquet", missing)
    (home / "set.parquet").write_bytes(b"")
    with pytest.raises(DataError, match="needs the package pyarrow"):
        load(str(home / "set.parquet"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "lacks the column 'path'"),
        ("path,label", "lists no images"),
        ("path,labels\na/1.png,x", "column 'labels'; did you mean 'label'"),
        ("path,label,label\na/1.png,x,y", "column 'label'"),
        ("path\na/1.png", "lacks the column 'label'"),
        ("path,label\na/1.png", "row 1: wanted is one value for each"),
        ("path,label\na/1.png,x\na/2.png, ", "row 2"),
        ("path,label\na/1.png,x\na/2.png,x", "one class only"),
        ("path,label\na/7.png,x\na/8.png,y\na/1.png,x", "2 of 3 images that .* a/7.png, .*a/8.png"),
        ("path,label,split\na/1.png,x,dev", "split 'dev' is none of train, test, val"),
        ("path,label,split\na/1.png,x,test", "no image for training"),
        ('path,label\n"a/1.png,x', "cannot read"),
        ("path,label\na\0b,x", "not there|cannot read"),
    ],
)
def test_lists_that_cannot_be_used(home: Path, text: str, sentence: str) -> None:
    (home / "set.csv").write_text(text)
    with pytest.raises(DataError, match=sentence.replace(" a/", ".*a/")):
        load(str(home / "set.csv"))
