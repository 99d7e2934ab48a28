"""Data sets by name and by path."""

from pathlib import Path

import pytest

from drpl.data.sources import FILES, FOLDERS, SOURCES, VARIED, load
from drpl.errors import DataError
from drpl.registry import DATASETS, Entry


def test_every_name_has_a_reader_and_a_sentence() -> None:
    for entry in DATASETS.values():
        assert callable(entry.load())
        assert entry.about
    for target in (*FOLDERS.values(), *FILES.values()):
        assert callable(Entry(target, "").load())
    assert set(VARIED) < set(DATASETS)
    assert {f"FILE{suffix}" for suffix in FILES} < set(SOURCES)


def test_what_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(DataError, match="neither a folder"):
        load(str(tmp_path / "text.txt"))
    with pytest.raises(DataError, match="did you mean 'digits'"):
        load("digts")
    with pytest.raises(DataError, match="digits has no variants"):
        load("digits:worse")
    with pytest.raises(DataError, match="there is no file or folder"):
        load("nowhere/x.npz")
