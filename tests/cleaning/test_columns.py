"""What a list says besides goes through: clean, apply, and the corrected list again."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from drpl.cleaning.claim import PLAN
from drpl.cleaning.clean import clean
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.plan import list_choices
from drpl.data.sources import ReadOptions, load
from tests.conftest import Command
from tests.data.readers.test_kinds import COLOURS, make_shard

pytestmark = pytest.mark.usefixtures("undrawn")

ROWS = 24


def write_list(home: Path) -> Path:
    """Two colours as files, four of them held out, with columns of every kind of name."""
    rows = []
    for k in range(ROWS):
        name = ("red", "blue")[k % 2]
        noise = np.random.RandomState(k).randint(-20, 20, (8, 8, 3))
        pixels = (np.array(COLOURS[name]) + noise).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(home / f"{k}.png")
        given = "blue" if k == 0 else name
        rows.append((given, f"{k}.png", "test" if k >= ROWS - 4 else "train", k, "=1+1", f"x, {k}"))
    columns = ["what", "where", "split", "id", "=note", "by"]
    table = pd.DataFrame(rows, columns=columns)
    table.to_csv(home / "list.tsv", sep="\t", index=False)
    return home / "list.tsv"


def test_columns_go_through(tmp_path: Path, command: Command) -> None:
    source, out = write_list(tmp_path), tmp_path / "cleaned"
    options = ReadOptions(path_column="where", label_column="what", size=8)
    *_, quickest = list_choices(load(str(source), options))
    quickest.save(out / PLAN)
    clean(str(source), out, read_options=options, quiet=True)
    cleaned = CleanedFolder.load(out)
    assert cleaned.columns == ("list_id", "=note", "by")
    assert list(cleaned.samples["by"]) == [f"x, {k}" for k in range(ROWS - 4)]
    assert set(cleaned.samples["=note"]) == {"=1+1"}
    assert cleaned.read == {"path_column": "where", "label_column": "what"}
    issues = pd.read_csv(out / "issues.csv")
    assert {"list_id", "by"} <= set(issues.columns)
    answer = command("apply", out, "-o", tmp_path / "corrected")
    assert answer.code == 0, answer.err
    again = load(str(tmp_path / "corrected" / "labels.csv"))
    assert again.test is not None
    assert (len(again.train), len(again.test)) == (ROWS - 4, 4)
    assert again.test.columns["by"] == tuple(f"x, {k}" for k in range(ROWS - 4, ROWS))
    assert again.train.columns["list_id"] == tuple(map(str, range(ROWS - 4)))
    assert set(again.train.columns["=note"]) == {"=1+1"}


def test_parts_of_files_go_through(tmp_path: Path, command: Command) -> None:
    for k in range(4):
        make_shard(tmp_path / "shards" / f"{k}.tar", 6 * k)
    make_shard(tmp_path / "shards" / "test" / "0.tar", 100)
    source, out = str(tmp_path / "shards"), tmp_path / "cleaned"
    options = ReadOptions(size=8, classes=("red", "blue"))
    *_, quickest = list_choices(load(source, options))
    quickest.save(out / PLAN)
    clean(source, out, read_options=options, quiet=True)
    cleaned = CleanedFolder.load(out)
    assert cleaned.samples["path"].iloc[0] == "0.tar#0000.png"
    assert command("apply", out, "-o", tmp_path / "corrected").code == 0
    again = load(str(tmp_path / "corrected" / "labels.csv"))
    assert again.test is not None
    assert (len(again.train), len(again.test)) == (16, 4)
    refused = command("apply", out, "-o", tmp_path / "linked", "--links")
    assert refused.code == 2
    assert "parts of files, to which there are no links" in refused.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("doctor", "list.tsv", "--path-column", "wher"), "no column 'wher'; did you mean 'where'"),
        (("train", "list.tsv"), "name it with --path-column"),
        (
            ("clean", "list.tsv", "-o", "x", "--path-column", "where", "--label-pattern", "("),
            "the label pattern '(' is wrong",
        ),
        (("encode", "list.tsv", "-o", "x.npz", "--classes", "a"), "name it with --path-column"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, command: Command, words: tuple[str, ...], sentence: str
) -> None:
    write_list(tmp_path)
    answer = command(*words)
    assert answer.code == 2
    assert sentence in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_run_says_how_its_data_were_read(tmp_path: Path) -> None:
    from drpl.files import read_json
    from drpl.runs.experiment import Experiment

    write_list(tmp_path)
    asked = {"path_column": "where", "label_column": "what"}
    data = load(str(tmp_path / "list.tsv"), ReadOptions(**asked, size=8))  # type: ignore[arg-type]
    first = Experiment.build(data)
    assert data.origin is not None
    assert data.origin.read_options.describe_labels() == asked
    other = load(
        str(tmp_path / "list.tsv"), ReadOptions(path_column="where", label_column="split", size=8)
    )
    assert Experiment.build(other).digest != first.digest
    from drpl.runs.execute import detect

    result = detect(data, out=tmp_path / "run", quiet=True, settings={"network": "mlp"})
    told = read_json(result.folder / "provenance.json")["data"]
    assert {name: told[name] for name in asked} == asked
