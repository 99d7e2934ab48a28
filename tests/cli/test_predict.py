"""`drpl predict` on files, folders and lists, of which some cannot be read."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.data.images import FileImages
from drpl.errors import DataError
from drpl.runs import display, model
from tests.conftest import Answer, Command
from tests.support.tiny import tiny_config, tiny_pixels


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny: DatasetSplits) -> Path:
    folder = tmp_path_factory.mktemp("run")
    config = tiny_config("cross_entropy", 2)
    drpl.train(tiny, method="cross_entropy", config=config, out=folder, quiet=True)
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Ten images, some in sub-folders, among other files."""
    root = tmp_path / "pictures"
    (root / "more" / "deep").mkdir(parents=True)
    for k, image in enumerate(tiny_pixels(10, "test")[0]):
        place = root / ("more/deep" if k > 6 else "more" if k > 3 else "")
        Image.fromarray(image[0].numpy()).save(place / f"{k}.png")
    (root / "notes.txt").write_text("not an image")
    return root


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_folders_lists_and_files_at_once(command: Command, run: Path, pictures: Path) -> None:
    listed = pictures.parent / "list.csv"
    listed.write_text("label,path\nx,pictures/5.png\n".replace("/5", "/more/5"))
    answer = command("predict", run, pictures, listed, pictures / "0.png", "--batch", 4)
    assert answer.code == 0
    found = [Path(row["path"]).name for row in rows(answer.out)]
    assert found == [f"{k}.png" for k in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 0)]
    assert "predict: 12 of 12" in answer.err


def test_batches_change_nothing_and_agree_with_the_model(
    command: Command, run: Path, pictures: Path
) -> None:
    texts = [command("predict", run, pictures, "--batch", size).out for size in (1, 3, 100)]
    tables = [pd.read_csv(io.StringIO(text)) for text in texts]
    trained = model.load(run)
    probs = trained.predict(FileImages(list(tables[0]["path"]), 8, 1)).numpy()
    columns = ["p_top", "p_left", "p_middle"]
    for table in tables:
        assert table["path"].tolist() == tables[0]["path"].tolist()
        assert np.allclose(table[columns].to_numpy(), probs, atol=1e-5)
        assert table["class"].tolist() == [trained.classes[k] for k in probs.argmax(1)]
        assert np.allclose(table["confidence"], probs.max(1), atol=1e-5)


def test_broken_files_are_named_and_the_rest_predicted(
    command: Command, run: Path, pictures: Path
) -> None:
    (pictures / "more" / "4.png").write_bytes(b"\x89PNG broken")
    listed = pictures / "list.csv"
    listed.write_text("path\n0.png\nnowhere.png\n")
    answer = command("predict", run, pictures, listed, "-o", "out.csv", "--batch", 1)
    assert answer.code == 1
    assert answer.out == ""
    assert len(rows(Path("out.csv").read_text())) == 10
    assert f"cannot read {pictures / 'more' / '4.png'}: it is not an image" in answer.err
    assert f"cannot read {pictures / 'nowhere.png'}: " in answer.err
    assert answer.err.endswith("2 of 12 files could not be read\n")


def test_a_whole_batch_that_is_broken(command: Command, run: Path, pictures: Path) -> None:
    (pictures / "0.png").write_bytes(b"")
    answer = command("predict", run, pictures / "0.png", pictures / "1.png", "--batch", 1, "-q")
    assert answer.code == 1
    assert [Path(row["path"]).name for row in rows(answer.out)] == ["1.png"]
    assert answer.out.count("path,class") == 1
    assert "predict:" not in answer.err


def test_what_cannot_be_predicted(
    command: Command, run: Path, pictures: Path, tmp_path: Path
) -> None:
    def mistake(*words: object) -> str:
        answer: Answer = command("predict", *words)
        assert answer.code == 2
        return answer.err

    empty = tmp_path / "empty"
    empty.mkdir()
    assert "there are no image files in" in mistake(run, empty)
    assert "there is no image file" in mistake(run, pictures / "no.png", "-o", "out.csv")
    assert not Path("out.csv").exists()
    listed = tmp_path / "list.csv"
    listed.write_text("sound\na.png\n")
    assert "has no column with a known name for the path" in mistake(run, listed)
    assert "a.png" in command("predict", run, listed, "--path-column", "sound").err
    listed.write_text("path,label\n,a\n")
    assert "row 1: the path is missing" in mistake(run, listed)


def test_a_model_for_vectors_takes_no_files(tmp_path: Path, pictures: Path) -> None:
    data = drpl.arrays(np.random.default_rng(1).normal(size=(40, 3)), np.arange(40) % 2)
    config = tiny_config("cross_entropy", 1)
    drpl.train(data, method="cross_entropy", config=config, out=tmp_path / "v", quiet=True)
    with pytest.raises(DataError, match="for vectors"):
        next(model.classify(model.load(tmp_path / "v"), [str(pictures / "0.png")]))


def test_no_more_than_a_few_batches_are_held(
    run: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading stays a little ahead of predicting, however many files there are."""
    read = 0
    attempt = FileImages.attempt

    def counted(self: FileImages, index: object) -> object:
        nonlocal read
        read += len(index)  # type: ignore[arg-type]
        return attempt(self, index)  # type: ignore[arg-type]

    monkeypatch.setattr(FileImages, "attempt", counted)
    files = [str(pictures / f"{k % 4}.png") for k in range(200)]
    for number, (table, broken) in enumerate(model.classify(model.load(run), files, 4), 1):
        assert (len(table), broken) == (4, [])
        assert read <= 4 * (number + 2)
    assert read == 200


def test_progress_in_about_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with display.Display() as shown:
        counter = shown.track("predict", 1000)
        for done in range(4, 1001, 4):
            counter.move(done)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("predict: 100 of 1000, ")
    assert lines[-1].startswith("predict: 1000 of 1000, 0 s left")
