"""What `drpl clean` finds by features besides wrong labels."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from drpl.analysis.copies import KINDS, make_copies
from drpl.analysis.costs import SearchCost, measure_cost
from drpl.cleaning.clean import clean
from drpl.cleaning.findings import COPIED, FEW, SHARE, choose_copies
from drpl.cleaning.plan import Choice, Forecast, scale_epochs
from drpl.data.dataset import DatasetSplits, in_memory
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions
from drpl.encoders.encode import encode
from drpl.report.page import Section
from tests.support.encoders import write_model
from tests.support.pictures import draw_pictures

MODEL: list[tuple[str, dict[str, Any]]] = [
    ("AveragePool", {"kernel_shape": [4, 4], "strides": [4, 4]}),
    ("Flatten", {}),
]
COST = "drpl.cleaning.findings.measure_cost"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """An encoder of 4 by 4 colours."""
    return f"onnx:{write_model(tmp_path / 'means.onnx', nodes=MODEL)}"


@pytest.fixture
def sections(monkeypatch: pytest.MonkeyPatch) -> list[Section]:
    """Two epochs a stage; the parts of the report, which is not written."""
    shown: list[Section] = []

    def choose(data: DatasetSplits, *_: object) -> tuple[Choice, Forecast]:
        return scale_epochs(Choice(data, "vectors", {"pool": True, "width": 4}), 0.01, 64), []

    def keep(*_: object, sections: list[Section], **__: object) -> None:
        shown[:] = sections

    monkeypatch.setattr("drpl.cleaning.clean.fit_budget", choose)
    monkeypatch.setattr("drpl.cleaning.sections.report", keep)
    return shown


def copied_pictures() -> DatasetSplits:
    """154 pictures of two classes and copies: one in the wrong class, one for testing."""
    pixels = draw_pictures(154, 32)
    images = TensorImages(pixels)
    mirrored, again, *_ = (
        make_copies(images, torch.tensor([k]), kind, (32,))[0] for k, kind in enumerate(KINDS)
    )
    labels = [k % 2 for k in range(154)] + [0]
    data = arrays(torch.cat([pixels, again]).numpy(), labels, classes=["ash", "birch"])
    test = in_memory(mirrored, torch.tensor([0]), data.train.classes)
    return replace(data, test=test)


def run(out: Path, model: str) -> dict[str, bytes]:
    """Clean, and the bytes of what came out; files that hold a duration are left out."""
    options = ReadOptions(cache=out.parent / "cache")
    clean(copied_pictures(), out, features=model, read_options=options, quiet=True)
    timed = ("history.jsonl", "result.json", "provenance.json")
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in timed and path.suffix != ".pt"
    }


def test_near_duplicates_and_outliers_of_what_is_cleaned(
    tmp_path: Path, model: str, sections: list[Section], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = run(tmp_path / "cleaned", model)
    table = pd.read_csv(tmp_path / "cleaned" / "duplicates.csv")
    assert table["kind"].tolist() == ["conflict", "leak"]
    assert table["second_part"].tolist() == ["train", "test"]
    assert table["first_id"].tolist() == [1, 0]
    outliers = pd.read_csv(tmp_path / "cleaned" / "outliers.csv")
    found = json.loads(files["clean.json"])["findings"]
    assert (found["duplicates"]["conflicts"], found["duplicates"]["leaks"]) == (1, 1)
    assert found["outliers"] == len(outliers)
    assert "1 pair of near-duplicates has different labels" in files["summary.md"].decode()
    by_features = [one for one in sections if one.title in ("Near-duplicates", "Outliers")]
    assert len(by_features) == 2
    assert all(one.first for one in by_features)
    assert 'data-key="findings.duplicates.conflicts"' in by_features[0].html

    # Nothing else comes out otherwise.
    monkeypatch.setattr("drpl.cleaning.clean.choose_copies", lambda *_: (0, ""))
    without = run(tmp_path / "without", model)
    assert "duplicates.csv" not in without
    own = {"clean.json", "plan.json", "summary.md", "duplicates.csv", "outliers.csv"}
    assert all(files[name] == without[name] for name in without if name not in own)
    more = {name for name in files if name not in without} - own
    assert {f"images/{n}.png" for n in (0, 1, 154, "test-0")} <= files.keys()  # to be reviewed
    assert all(name.startswith("images/") for name in more)
    figures, others = json.loads(files["clean.json"]), json.loads(without["clean.json"])
    del figures["findings"]
    assert figures == others
    assert "Near-duplicates" not in [one.title for one in sections]


@pytest.mark.usefixtures("sections")
def test_a_short_budget_says_what_is_left_out(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COST, lambda _: SearchCost(400.0, 0.1))
    files = run(tmp_path / "cleaned", model)
    assert "duplicates.csv" not in files
    text = files["summary.md"].decode()
    assert "near-duplicates and outliers were not looked for: that would take about 7 min" in text
    assert "findings" not in json.loads(files["clean.json"])


def test_fewer_copies_where_time_is_short(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode(copied_pictures(), model, read_options=ReadOptions(cache=tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(COST, lambda _: SearchCost(FEW - 1, 0.011))
        chosen = [choose_copies(data, budget)[0] for budget in (1, 6 / SHARE, 7 / SHARE)]
        assert chosen == [50, 100, COPIED[0]]
    cost = measure_cost(data)
    assert 0 < cost.search < cost.of(10) < 60
    vectors = arrays(torch.rand(20, 4).numpy(), [0, 1] * 10)
    assert choose_copies(vectors, 1) == (0, "")
    assert choose_copies(copied_pictures(), 1) == (0, "")
