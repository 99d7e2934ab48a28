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
    def missing(path: Path, **how: str) -> None:
        raise ImportError("no engine")

    monkeypatch.setattr("pandas.read_parquet", missing)
    (home / "set.parquet").write_bytes(b"")
    with pytest.raises(DataError, match="needs the package pyarrow"):
        load(str(home / "set.parquet"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no column with a known name for the path .*--path-column"),
        ("path,label", "lists no images"),
        ("where,label\na/1.png,x", "known name for the path .its columns: where, label.; name it"),
        ("path,label,label\na/1.png,x,y", "two columns 'label'"),
        ("path\na/1.png", "known name for the label .*--label-column"),
        ("path,label\na/1.png", "row 1: wanted is one value for each"),
        ("path,label\na/1.png,x\n ,y", "row 2: the path is missing"),
        ("path,label,split\na/1.png,x,train\na/2.png,y,", "row 2: the split is missing"),
        ("path,label\na/1.png,x\na/2.png, ", "one class only"),
        ("path,label\na/1.png, \na/2.png, ", "nothing is left; left out 2 rows without a label"),
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("set.csv", "Image Name,Class,who\n{0},x,me\n{1},y,you\n"),
        ("set.csv", "filename;category;who\n{0};x;me\n{1};y;you\n"),
        ("set.tsv", "who\tfile\ttarget\nme\t{0}\tx\nyou\t{1}\ty\n"),
        (
            "set.jsonl",
            '{{"image": "{0}", "label": "x", "who": "me"}}\n\n'
            '{{"image": "{1}", "label": "y", "who": "you"}}',
        ),
    ],
)
def test_columns_are_found_by_common_names(home: Path, name: str, text: str) -> None:
    (home / name).write_text(text.format(*NAMES))
    data = load(str(home / name))
    assert data.train.paths == tuple(NAMES[:2])
    assert data.train.classes == ("x", "y")
    assert data.train.columns == {"who": ("me", "you")}
    assert data.root == home


def test_columns_are_taken_as_they_are_named(home: Path) -> None:
    text = "path,label,crop,truth,id\nno,0,a/1.png,x,7\nno,0,a/2.png,y,8\n"
    (home / "set.csv").write_text(text)
    data = load(str(home / "set.csv"), ReadOptions(path_column="crop", label_column="truth"))
    assert data.train.paths == ("a/1.png", "a/2.png")
    assert data.train.classes == ("x", "y")
    # those that our own tables have, too, get another name
    others = {"list_path": ("no", "no"), "list_label": ("0", "0"), "list_id": ("7", "8")}
    assert data.train.columns == others
    with pytest.raises(DataError, match="no column 'corp'; did you mean 'crop'"):
        load(str(home / "set.csv"), ReadOptions(path_column="corp"))


def test_reserved_names_are_those_of_our_tables() -> None:
    from drpl.cleaning.folder import ISSUES
    from drpl.data.readers.rows import RESERVED
    from drpl.runs.folder import COLUMNS

    assert {*ISSUES, *COLUMNS} <= RESERVED


def test_columns_stay_with_their_images(home: Path) -> None:
    rows = "".join(f"{name},{k % 2},{k}\n" for k, name in enumerate(NAMES))
    (home / "set.csv").write_text(f"path,label,number\n{rows}")
    whole = load(str(home / "set.csv"))
    assert whole.train.limit(2).columns == {"number": ("0", "1")}
    (home / "a" / "2.png").write_bytes(b"no image")
    left = load(str(home / "set.csv"), ReadOptions(skip_broken=True))
    assert left.train.columns == {"number": ("0", "2", "3")}
    (home / "set.csv").write_text(f"path,label,other\n{rows}")
    other = load(str(home / "set.csv"), ReadOptions(skip_broken=True))
    assert other.train.identify() != left.train.identify()


def test_what_is_not_read_of_a_list_is_said(home: Path) -> None:
    names = [*NAMES, "a/1.png", "gone.png"]
    labels = ["x", "y", "z", "x", "", "y"]
    rows = "".join(f"{name},{label}\n" for name, label in zip(names, labels, strict=True))
    (home / "set.csv").write_text(f"path,label\n{rows}")
    options = ReadOptions(skip_broken=True, classes=("x", "y"))
    data = load(str(home / "set.csv"), options)
    assert data.train.paths == ("a/1.png", "a/2.png", "b/4.png")
    assert data.notes == (
        "left out 1 image that is listed but not there: gone.png",
        "left out 1 row without a label: a/1.png",
        "left out 1 image of a class that was not chosen: b/3.png",
    )
    with pytest.raises(DataError, match="no class is named 'w'"):
        load(str(home / "set.csv"), ReadOptions(skip_broken=True, classes=("w",)))
    with pytest.raises(DataError, match=r"1 of 6 images that .* --skip-broken"):
        load(str(home / "set.csv"))


def test_images_in_the_one_folder_beside_a_list(home: Path) -> None:
    (home / "set.csv").write_text("path,label\n1.png,x\n2.png,y\n")
    assert load(str(home / "set.csv")).train.paths == ("a/1.png", "a/2.png")


def test_a_list_from_windows(home: Path) -> None:
    r"""Its a\1.png was not found elsewhere, and what is not UTF-8 was told in a codec's words."""
    text = "\r\n".join(["path;label", *(f"{name};ü{k % 2}" for k, name in enumerate(NAMES))])
    (home / "set.csv").write_text(text.replace("/", "\\"), "utf-8-sig")
    data = load(str(home / "set.csv"))
    assert (data.train.paths, data.train.classes) == (tuple(NAMES), ("ü0", "ü1"))
    (home / "set.csv").write_text(text, "latin-1")
    with pytest.raises(DataError, match=r"set\.csv is not in UTF-8; save it with that encoding$"):
        load(str(home / "set.csv"))


def test_labels_by_a_pattern_in_a_list(home: Path) -> None:
    (home / "set.csv").write_text("path,label\n" + "".join(f"{name},z\n" for name in NAMES))
    data = load(str(home / "set.csv"), ReadOptions(label_pattern="^([ab])/"))
    assert data.train.classes == ("a", "b")
    assert data.train.columns == {"list_label": ("z",) * 4}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1]", "line 1: wanted is an object"),
        ('{"path": ', "line 1 is no JSON"),
        ("[" * 100_000, "line 1 is no JSON"),
        ('{"path": {"bytes": "x"}, "label": 1}', "holds whole images"),
        ("", "known name for the path"),
    ],
)
def test_json_lines_that_cannot_be_used(home: Path, text: str, sentence: str) -> None:
    (home / "set.jsonl").write_text(text)
    with pytest.raises(DataError, match=sentence):
        load(str(home / "set.jsonl"))


def test_a_line_that_never_ends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpl.data.readers.list.LONGEST", 10)
    (home / "set.jsonl").write_text('{"path": "a/1.png"}')
    with pytest.raises(DataError, match="line 1 is longer than 10 signs"):
        load(str(home / "set.jsonl"))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_several_labels(home: Path, suffix: str) -> None:
    import pandas as pd

    labels = [["cat", "dog"], ["cat"], [], ["dog", "fox"]]
    table = pd.DataFrame({"path": NAMES, "labels": labels})
    if suffix == "csv":
        cells = [" ; ".join(names) for names in labels]
        table.assign(labels=cells).to_csv(home / "set.csv", index=False)
    elif suffix == "jsonl":
        table.to_json(home / "set.jsonl", orient="records", lines=True)
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(home / "set.parquet")
    path = str(home / f"set.{suffix}")
    separator = ";" if suffix == "csv" else None  # four cells are too few to guess from
    data = load(path, ReadOptions(several=True, label_separator=separator))
    assert data.train.classes == ("cat", "dog", "fox")
    assert data.train.tags is not None
    assert data.train.tags.int().tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert data.train.entries.tolist() == [0, 1, 0, 1, 2]
    assert "gives images several labels each" in data.notes[0]
    assert data.train.limit(3).tags is not None
    with pytest.raises(DataError, match="several labels each, which `drpl clean` judges"):
        load(path, ReadOptions(label_separator=separator))


def test_when_a_cell_is_taken_apart() -> None:
    from drpl.data.readers.rows import split_labels

    assert split_labels(["a", "b", "a|b", "b|c", "c"], None)[1] == "|"
    assert split_labels(["a, b", "b, a", "a", "b"], None)[1] == ","
    # names with such signs in them
    assert split_labels(["cat, wild", "dog, tame", "fox"], None) == (
        [("cat, wild",), ("dog, tame",), ("fox",)],
        "",
    )
    assert split_labels(["a;b", "a"], "")[0] == [("a;b",), ("a",)]
    assert split_labels(["a/b", "a"], "/")[0] == [("a", "b"), ("a",)]
    assert split_labels(['["b", 2]', ""], "json")[0] == [("b", "2"), ()]
    for cell in ("[1", "[[1]]", '{"a": 1}'):
        with pytest.raises(DataError, match="should be a list in JSON"):
            split_labels([cell], "json")
