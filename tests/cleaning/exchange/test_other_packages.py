"""What the tools themselves make of what is written for them, where they are installed."""

import shutil
from pathlib import Path

import pytest

import drpl
from drpl.cleaning.apply import write
from drpl.cleaning.correct import Correction
from drpl.cleaning.folder import CleanedFolder
from tests.cleaning.exchange.conftest import hold
from tests.cleaning.test_apply import all_four
from tests.support.cleaned import CLASSES, make, rows


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_loads_the_folder(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = make(tmp_path, 30)
    all_four(made)
    drpl.export_labels(made.folder, "huggingface", tmp_path / "hf")
    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path / "hf"), cache_dir=str(tmp_path / "cache")
    )
    assert list(loaded) == ["train"]
    assert len(loaded["train"]) == 30
    table = {row["file_name"]: row for row in rows(tmp_path / "hf" / "train" / "metadata.csv")}
    assert len(table) == 30
    for row in loaded["train"]:
        assert row["image"].size == (48, 40)
        assert row["label"] in (*CLASSES, "none of the classes")
    found = {row["path"]: row["label"] for row in loaded["train"]}
    assert found == {row["path"]: row["label"] for row in table.values()}


@pytest.mark.filterwarnings("ignore")
def test_through_fiftyone_and_back(tmp_path: Path) -> None:
    """Its own reader and writer, which need no data base; one label is changed in between."""
    data = pytest.importorskip("fiftyone.utils.data")
    made = make(tmp_path, 30)
    copy = Path(shutil.copytree(made.folder, tmp_path / "copy"))
    all_four(made)
    drpl.export_labels(made.folder, "fiftyone", tmp_path / "out")
    importer = data.FiftyOneImageClassificationDatasetImporter(dataset_dir=str(tmp_path / "out"))
    importer.setup()
    assert importer.get_dataset_info() == {"classes": [*CLASSES, "none of the classes"]}
    exporter = data.FiftyOneImageClassificationDatasetExporter(
        export_dir=str(tmp_path / "back"), include_attributes=True, export_media=True
    )
    undecided = next(i for i in made.samples.index if made.given[i] == made.truth[i])
    with exporter:
        for file, _, label in importer:
            assert Path(file).is_file()
            if label.path == made.samples.at[undecided, "path"]:
                label.label = CLASSES[made.given[undecided] - 1]
            exporter.export_sample(file, label)
    taken = drpl.import_labels(copy, tmp_path / "back", reviewer="Eve")
    people, _ = hold(copy)
    assert taken == (5, 0, [])
    assert people["Ann"] == hold(made.folder)[0]["Ann"]
    assert people["Eve"][undecided].label == CLASSES[made.given[undecided] - 1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("links", [False, True])
def test_croissant_is_valid(tmp_path: Path, links: bool) -> None:
    croissant = pytest.importorskip("mlcroissant")
    made = make(tmp_path, 60)
    cleaned, _ = all_four(made)
    out = tmp_path / "out"
    write(Correction.build(CleanedFolder.load(cleaned.folder)), out, links=links)
    described = croissant.Dataset(jsonld=str(out / "croissant.json"))
    assert not described.metadata.ctx.issues.errors
    changes = [
        {name.partition("/")[2]: value for name, value in record.items()}
        for record in described.records("changes")
    ]
    assert changes[0]["to"].decode() in CLASSES
    assert [change["id"] for change in changes] == [int(r["id"]) for r in rows(out / "audit.csv")]
    if not links:
        labels = [record["images/label"].decode() for record in described.records("images")]
        assert labels == [row["label"] for row in rows(out / "labels.csv")]
