"""Several labels an image: which entries are wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import drpl
from drpl import files
from drpl.cleaning.clean import clean
from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.tags import TagCleaning, judge_tags
from drpl.cli.answers import TagsCleaned
from drpl.data.dataset import Dataset, DatasetSplits, statistics
from drpl.data.images import TensorImages
from drpl.data.sources import ReadOptions, load
from drpl.detection.tag_noise import TagNoise
from drpl.errors import ConfigError, DataError, RunError
from tests.conftest import Command

pytestmark = pytest.mark.usefixtures("undrawn")

COUNT = 400
FLIPPED = 0.1


def make_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two of the first five digits side by side as vectors, and which they are. [N, 128], [N, 5]"""
    digits = load_digits(n_class=5)
    draws = np.random.RandomState(0).randint(len(digits.target), size=(2, count))
    tags = np.zeros((count, 5), bool)
    for half in draws:
        tags[np.arange(count), digits.target[half]] = True
    return np.concatenate([digits.data[half] for half in draws], 1), tags


def plant(tags: np.ndarray, share: float = FLIPPED) -> np.ndarray:
    """The same with wrong entries both ways."""
    return tags ^ (np.random.RandomState(1).rand(*tags.shape) < share)


def build(vectors: np.ndarray, tags: np.ndarray) -> DatasetSplits:
    images = TensorImages(torch.from_numpy(vectors).float())
    first = torch.from_numpy(tags.argmax(1))
    train = Dataset(images, first, tuple("01234"), tags=torch.from_numpy(tags))
    return DatasetSplits("pairs", train, None, *statistics(images))


def test_planted_entries_are_found() -> None:
    vectors, tags = make_pairs(1500)
    given = plant(tags)
    found = judge_tags(build(vectors, given))
    wrong = given != tags
    assert roc_auc_score(wrong.ravel(), found.p_wrong.numpy().ravel()) > 0.9
    listed = found.issues.numpy()
    assert wrong[listed].mean() > 0.7
    # both kinds are among them
    assert (listed & given & wrong).sum() > 50
    assert (listed & ~given & wrong).sum() > 50
    rate = float(found.p_wrong.mean())
    assert abs(rate - wrong.mean()) < 0.05


def test_rates_of_both_kinds_are_told_apart() -> None:
    draws = np.random.RandomState(0)
    true = draws.rand(4000) < 0.3
    scores = true + 0.3 * draws.randn(4000)
    given = true & (draws.rand(4000) > 0.25)  # a quarter is missing, none is too much
    model = TagNoise.fit(torch.from_numpy(scores), torch.from_numpy(given))
    assert abs(model.missing - 0.25) < 0.06
    assert model.wrong < 0.02
    assert roc_auc_score(given != true, model.posterior.numpy()) > 0.95


def test_a_label_of_few_images_is_not_judged() -> None:
    vectors, tags = make_pairs(200)
    tags[:, 0] = False
    tags[:3, 0] = True
    found = judge_tags(build(vectors, tags))
    assert found.judged.tolist() == [False, True, True, True, True]
    assert not found.issues[:, 0].any()


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """Pairs of digits as files, with their labels and a further column in a list."""
    digits = load_digits(n_class=5)
    draws = np.random.RandomState(0).randint(len(digits.target), size=(2, COUNT))
    _, tags = make_pairs(COUNT)
    given = plant(tags, 0.05)
    place = tmp_path / "pairs"
    place.mkdir()
    rows = []
    for k, (a, b) in enumerate(draws.T):
        both = np.concatenate([digits.images[a], digits.images[b]], 1) * 15
        picture = Image.fromarray(both.astype(np.uint8)).resize((64, 32))
        picture.save(place / f"{k}.png")
        labels = ";".join(str(c) for c in np.flatnonzero(given[k]))
        rows.append((f"{k}.png", labels, f"shift {k % 3}"))
    table = pd.DataFrame(rows, columns=["file", "labels", "shift"])
    table.to_csv(place / "list.csv", index=False)
    return place / "list.csv"


@pytest.fixture
def encoded(listed: Path) -> Path:
    """The list, and vectors of its own beside it."""
    vectors, _ = make_pairs(COUNT)
    np.savez(listed.with_suffix(".npz"), x=vectors.astype(np.float32))
    return listed


def test_clean_writes_a_table_for_each_label(encoded: Path, tmp_path: Path) -> None:
    options = ReadOptions(size=16)
    asked = {"features": str(encoded.with_suffix(".npz")), "read_options": options, "quiet": True}
    found = clean(str(encoded), tmp_path / "out", **asked)  # type: ignore[arg-type]
    assert isinstance(found, TagCleaning)
    issues, labels = found.issues, found.labels
    assert set(issues["kind"]) == {"wrong", "missing"}
    assert list(issues.columns) == [
        *("id", "path", "label", "kind", "p_wrong", "score", "labels", "shift"),
    ]
    assert issues["p_wrong"].is_monotonic_decreasing
    assert list(labels["label"]) == list("01234")
    assert labels["listed_wrong"].sum() + labels["listed_missing"].sum() == len(issues)
    samples = pd.read_csv(tmp_path / "out" / "samples.csv", keep_default_na=False, dtype=str)
    assert list(samples["shift"]) == [f"shift {k % 3}" for k in range(COUNT)]
    row = issues.iloc[0]
    sample = samples.iloc[row["id"]]
    given, suggested = (set(sample[name].split(";")) for name in ("labels", "suggested_labels"))
    assert (str(row["label"]) in given) == (row["kind"] == "wrong")
    assert (str(row["label"]) in suggested) == (row["kind"] == "missing")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<h2") == 5
    assert "data:image/png" in page
    assert "gives images several labels each" in found.text
    assert "<table" in found._repr_html_()
    # the same call finds it done; others are told that it is theirs
    assert clean(str(encoded), tmp_path / "out", **asked).figures == found.figures  # type: ignore[arg-type]
    with pytest.raises(RunError, match="several labels each, and this takes one"):
        CleanedFolder.load(tmp_path / "out")
    one = ReadOptions(size=16, label_separator="")
    with pytest.raises(RunError, match="use another folder"):
        clean(str(encoded), tmp_path / "out", read_options=one, quiet=True)
    # a list of the suggestions is one that can be read
    samples[["path", "suggested_labels"]].to_csv(encoded.with_name("new.csv"), index=False)
    asked_again = ReadOptions(several=True, label_column="suggested_labels")
    assert load(str(encoded.with_name("new.csv")), asked_again).train.tags is not None


def test_a_call_that_was_killed_while_it_wrote_is_finished_by_the_same(
    encoded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, out = str(encoded.with_suffix(".npz")), tmp_path / "out"
    other = encoded.with_name("other.csv")
    pd.read_csv(encoded, dtype=str)[:-1].to_csv(other, index=False)
    vectors, _ = make_pairs(COUNT)
    np.savez(other.with_suffix(".npz"), x=vectors[:-1].astype(np.float32))
    written, real = 0, files.write_atomic

    def write(path: Path, content: str | bytes) -> None:
        nonlocal written
        if path.parent == out:
            written += 1
            if written > most:
                raise KeyboardInterrupt
        real(path, content)

    for module in ("drpl.files", "drpl.cleaning.tags", "drpl.cleaning.tag_report"):
        monkeypatch.setattr(f"{module}.write_atomic", write)
    for most in range(20):
        written = 0
        try:
            found = clean(str(encoded), out, features=features, quiet=True)
        except KeyboardInterrupt:
            assert not (out / "clean.json").exists()
            if most:  # it is the folder of these data, though nothing is finished
                with pytest.raises(RunError, match="use another folder"):
                    clean(str(other), out, features=str(other.with_suffix(".npz")), quiet=True)
        else:
            break
    assert most > 5
    monkeypatch.undo()
    whole = clean(str(encoded), tmp_path / "whole", features=features, quiet=True)
    assert found.figures == whole.figures
    assert found.issues.equals(whole.issues)


def test_labels_that_look_like_numbers_or_formulas_stay_texts(
    encoded: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(encoded, dtype=str, keep_default_na=False)
    table["labels"] = table["labels"].str.replace("0", "007").str.replace("1", "=1")
    table["shift"] = "05"
    table.to_csv(encoded, index=False)
    features = str(encoded.with_suffix(".npz"))
    found = clean(str(encoded), tmp_path / "out", features=features, quiet=True)
    assert isinstance(found, TagCleaning)
    names = {"007", "=1", "2", "3", "4"}
    assert set(found.issues["label"]) <= names == set(found.labels["label"])
    assert {"007", "=1"} <= set(found.issues["label"])
    assert {one for row in found.issues["labels"] for one in row.split(";") if one} <= names
    assert set(found.issues["shift"]) == {"05"}


def test_several_labels_and_other_commands(encoded: Path, tmp_path: Path) -> None:
    from drpl.analysis.doctor import examine
    from drpl.encoders.encode import write_features

    vectors = ReadOptions(several=True, features=str(encoded.with_suffix(".npz")))
    data = load(str(encoded), vectors)
    with pytest.raises(ConfigError, match="several labels each; training takes one"):
        drpl.Experiment.build(data)
    with pytest.raises(DataError, match="several labels each"):
        drpl.train(str(encoded))
    with pytest.raises(DataError, match="cannot be set aside"):
        load(str(encoded), ReadOptions(several=True, outside=("1",)))
    with pytest.raises(ConfigError, match="judged by features"):
        clean(str(encoded), tmp_path / "x", features="none", quiet=True)
    text = str(examine(load(str(encoded), ReadOptions(several=True)), encoded.parent))
    assert data.train.tags is not None
    assert f"0 {int(data.train.tags[:, 0].sum())}" in text
    write_features(data, tmp_path / "made.npz")
    again = load(str(tmp_path / "made.npz"), ReadOptions(several=True))
    assert again.train.tags is not None
    assert torch.equal(again.train.tags, data.train.tags)
    found = clean(str(tmp_path / "made.npz"), tmp_path / "out", quiet=True)
    assert json.loads((found.folder / "clean.json").read_text())["several"]


def test_the_command_answers_for_several_labels_too(encoded: Path, command: Command) -> None:
    vectors = encoded.with_suffix(".npz")
    said = command("clean", encoded, "-o", "out", "--features", vectors, "--quiet", "--json")
    assert said.code == 0, said.err
    found = TagsCleaned.model_validate_json(said.out)
    assert found.issues == sum(found.kinds.values()) > 0
    assert found.worst[0]["kind"] in ("wrong", "missing")
