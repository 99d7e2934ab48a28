import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from drpl.data.safe_pickle import read_archive, read_pickle
from drpl.errors import DataError
from tests.support.datasets import dump, make_human


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    grid = np.arange(6, dtype=np.uint8).reshape(2, 3)
    columns = np.asfortranarray(grid.astype(">i4"))
    content = {"grid": grid, "columns": columns, b"key": [1, "a", b"b"], "one": np.int64(7)}
    dump(tmp_path / "x", content, protocol)
    found = read_pickle(tmp_path / "x")
    assert np.array_equal(found["grid"], grid)
    assert np.array_equal(found["columns"], columns)
    assert found["one"] == 7
    assert found["key"][:2] == [1, "a"]


ARRAY = pickle.dumps({"a": np.array([5, 6], np.uint8)}, 3)


class Evil:
    """Runs a command when an ordinary unpickler meets it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch '{self.path}'",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_run(tmp_path: Path, protocol: int) -> None:
    dump(tmp_path / "x", {"data": Evil(tmp_path / "ran")}, protocol)
    with pytest.raises(DataError, match=r"asks for (posix|nt)\.system, which a file of images"):
        read_pickle(tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("archive/data.pkl", (tmp_path / "x").read_bytes())
    with pytest.raises(DataError, match="do not trust it"):
        read_archive(tmp_path / "x.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "damaged or no pickle"),
        (b"no pickle at all", "damaged or no pickle"),
        (pickle.dumps([1, 2]), "should hold a dictionary, not a list"),
        (pickle.dumps({"a": np.arange(3)})[:-9], "damaged"),
        (pickle.dumps({"a": np.array([None])}), "asks for an array of 'O8'"),
        (pickle.dumps({"a": {1, 2}}), "the pickle step EMPTY_SET"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "numbers its parts wrongly"),
        (b"\x80\x04B\xff\xff\xff\x7fab.", "damaged"),  # two bytes that claim to be 2 GB
        (b"\x80\x02}(" + b")" + b"\x85" * 20_000 + b"K\x01u.", "too many parts"),
        (ARRAY.replace(b"C\x02\x05\x06", b"J\xff\xff\xff\x7f"), "no content"),  # 2 GB of zeros
        (b"cnumpy\nndarray\n(I99999999999\ntR.", "damaged"),  # an array of 100 GB
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError) as error:
        read_pickle(tmp_path / "x")
    assert sentence in str(error.value)


def test_archives_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with pytest.raises(DataError, match="cannot read"):
        read_archive(path)
    path.write_bytes(b"PK no zip")
    with pytest.raises(DataError, match="cannot read"):
        read_archive(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(DataError, match=r"holds no data\.pkl"):
        read_archive(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    with pytest.raises(DataError, match="compressed"):
        read_archive(path)
    make_human(path, clean_label=[1, 2])
    assert read_archive(path)["clean_label"].tolist() == [1, 2]
    with pytest.raises(DataError, match="cannot read"):
        read_pickle(tmp_path)
