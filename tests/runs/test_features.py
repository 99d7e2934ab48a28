"""A model of features is one model: images go in, here and in the file that it is exported to."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor

import drpl
from drpl.analysis.cam import look, model_maps
from drpl.data.images import FileImages, TensorImages
from drpl.data.sources import ReadOptions
from drpl.encoders import encode, lite
from drpl.errors import ConfigError, RunError
from drpl.files import write_json
from drpl.runs import export as exporting
from drpl.runs import model
from tests.conftest import Command
from tests.support.tiny import brief_settings

pytestmark = pytest.mark.usefixtures("undrawn")

SIDE = 48  # its last maps have 2 x 2 pixels
NAMES = ("forest", "sea", "street")
DEPLOY = Path(__file__).parents[2] / "docs" / "deploy.md"
Runs = Callable[[str], Path]


def paint(count: int, seed: int) -> list[Image.Image]:
    """Pictures of many sizes; the classes take turns, each with a colour and stripes of its own."""
    draws, made = np.random.default_rng(seed), []
    for k in range(count):
        high, wide = draws.integers(SIDE // 2, 5 * SIDE, 2)
        picture = draws.integers(0, 120, (high, wide, 3))
        picture[:: 2 + k % 3, :, k % 3] += 130
        made.append(Image.fromarray(picture.astype(np.uint8)))
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the labelled images in `photos`."""
    place = tmp_path_factory.mktemp("features")
    for k, picture in enumerate(paint(48, 1)):
        folder = place / "photos" / NAMES[k % 3]
        folder.mkdir(parents=True, exist_ok=True)
        picture.save(folder / f"{k}.png")
    return place


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One store for all tests here, wherever they run."""
    for module in (model, encode):
        monkeypatch.setattr(module, "CACHE", place / "cache")
    return place / "cache"


@pytest.fixture
def runs(place: Path) -> Runs:
    """Finished runs: `linear`, and `mirrored`, whose MLP sees some principal components."""

    def find(name: str) -> Path:
        out, mirrored = place / name, name == "mirrored"
        if not (out / "result.json").exists():
            options = ReadOptions(cache=place / "cache", size=SIDE)
            photos = str(place / "photos")
            data = drpl.encode(photos, "lite0", mirrored=mirrored, read_options=options)
            own: dict[str, Any] = {"dimensions": 20} if mirrored else {"network": "linear"}
            settings = brief_settings("cross_entropy", 8, own)
            drpl.train(data, method="cross_entropy", settings=settings, out=out, quiet=True)
        return out

    return find


@pytest.fixture
def exported(runs: Runs) -> Runs:
    """The files that these runs are exported to."""

    def find(name: str) -> Path:
        path = runs(name) / "model.onnx"
        if not path.exists():
            exporting.export(runs(name), path)
        return path

    return find


def save_photos(folder: Path, count: int) -> list[str]:
    """Photos as cameras make them: JPEG, some grey, some turned."""
    folder.mkdir()
    paths = []
    for k, picture in enumerate(paint(count, 2)):
        about = Image.Exif()
        about[0x0112] = 1 + k % 8  # orientation
        path = folder / f"{k:03d}.{'png' if k % 4 == 3 else 'jpg'}"
        (picture.convert("L") if k % 5 == 4 else picture).save(path, exif=about)
        paths.append(str(path))
    return paths


def compare_on_photos(run: Path, file: Path, count: int, command: Command) -> None:
    """What the docs' script computes with onnxruntime is what `drpl predict` says."""
    pytest.importorskip("onnxruntime")
    (script,) = (
        code
        for code in re.findall(r"```python\n(.*?)```", DEPLOY.read_text(), re.DOTALL)
        if "photo.jpg" in code
    )
    assert len([line for line in script.splitlines() if line.strip()]) <= 10
    paths = save_photos(Path("new"), count)
    answer = command("predict", run, "new", "-o", "named.csv")
    assert answer.code == 0, answer.err
    wanted = pd.read_csv("named.csv")[[f"p_{name}" for name in NAMES]].to_numpy()
    Path("model.onnx").write_bytes(file.read_bytes())
    for path, row in zip(paths, wanted, strict=True):
        names: dict[str, Any] = {}
        exec(compile(script.replace("photo.jpg", path), "deploy.md", "exec"), names)
        assert np.abs(names["probabilities"][0] - row).max() < 1e-4, path
    assert len(set(wanted.argmax(1))) > 1  # there is something to tell apart
    assert wanted.std(0).max() > 0.05


@pytest.mark.slow
def test_the_exported_file_equals_predict_on_photos(
    runs: Runs, exported: Runs, command: Command
) -> None:
    compare_on_photos(runs("linear"), exported("linear"), 12, command)


@pytest.mark.slow
def test_the_exported_file_equals_predict_on_many_photos(
    runs: Runs, exported: Runs, command: Command
) -> None:
    compare_on_photos(runs("mirrored"), exported("mirrored"), 200, command)


@pytest.mark.slow
def test_torch_takes_images_too(runs: Runs, command: Command) -> None:
    answer = command("export", runs("mirrored"), "--to", "torch", "-o", "model.pt2")
    assert answer.code == 0, answer.err
    images = FileImages(save_photos(Path("new"), 5), SIDE, 3)
    shown = images.load(torch.arange(5))
    assert shown.shape == (5, 3, SIDE, SIDE)
    program = torch.export.load("model.pt2").module()
    wanted = model.load(runs("mirrored")).predict(images)
    assert torch.allclose(program(shown), wanted, atol=1e-4)


def test_what_goes_in_is_said(exported: Runs) -> None:
    runtime = pytest.importorskip("onnxruntime")
    about = runtime.InferenceSession(exported("linear")).get_modelmeta().custom_metadata_map
    assert json.loads(about["shape"]) == [3, SIDE, SIDE]
    assert about["input"].startswith("uint8 images")
    assert json.loads(about["classes"]) == list(NAMES)


def test_predictions_are_those_of_training(runs: Runs, place: Path) -> None:
    """Images that were trained on get the class and confidence that samples.csv has of them."""
    for name in ("linear", "mirrored"):
        samples = drpl.Result.load(runs(name)).samples
        files = [str(place / "photos" / path) for path in samples["path"]]
        probs = model.load(runs(name)).predict(FileImages(files, SIDE, 3))
        confidence = probs.max(1).values.numpy()
        assert np.abs(confidence - samples["confidence"].to_numpy()).max() < 5e-3  # stored in half


def test_vectors_are_taken_as_they_are(runs: Runs, place: Path) -> None:
    trained = model.load(runs("mirrored"))
    images = FileImages(sorted(map(str, (place / "photos" / "sea").iterdir())), SIDE, 3)
    vectors = TensorImages(trained.encode(images))
    assert torch.allclose(trained.predict(vectors), trained.predict(images), atol=1e-5)


def test_an_encoder_that_is_a_file_cannot_be_exported(
    runs: Runs, cache: Path, place: Path, tmp_path: Path, command: Command
) -> None:
    runs("linear")
    (file,) = (cache / "features").glob(f"lite0-*-{SIDE}.onnx")
    options = ReadOptions(cache=cache)
    data = drpl.encode(str(place / "photos"), f"onnx:{file}", read_options=options)
    settings = brief_settings("cross_entropy")
    drpl.train(data, method="cross_entropy", settings=settings, out=tmp_path / "run", quiet=True)
    answer = command("export", "run", "-o", "model.onnx")
    assert answer.code == 2
    assert "only onnxruntime can run" in answer.err
    assert not Path("model.onnx").exists()
    answer = command("predict", "run", place / "photos" / "sea", "-o", "named.csv")
    assert answer.code == 0, answer.err
    with pytest.raises(ConfigError, match="has no maps of an image"):
        look(tmp_path / "run")


def test_a_class_map_adds_up_to_the_logit(runs: Runs, place: Path) -> None:
    """The mean over a class's map differs from its logit by what no image changes."""
    trained = model.load(runs("linear"))
    images = FileImages(sorted(map(str, (place / "photos" / "sea").iterdir())), SIDE, 3)
    pixels = images.load(torch.arange(8))
    maps = model_maps(trained, pixels)
    assert maps.shape[:2] == (8, 3)
    logits: Tensor = trained.net.eval()(trained.transform(trained.encode(images), torch.empty(0)))
    rest = logits[:8].detach() - maps.mean((2, 3))
    assert logits[:8].std(0).min() > 0.1
    assert torch.allclose(rest, rest[:1].expand(8, -1), atol=1e-3)


def test_look_and_report_show_pictures(runs: Runs, command: Command) -> None:
    run = runs("linear")
    answer = command("look", run, "-o", "seen")
    assert answer.code == 0, answer.err
    assert len(pd.read_csv("seen/look.csv")) == 6
    view = look(run, [5])[0]
    assert view.pixels.shape == (SIDE, SIDE, 3)
    assert view.given_map.std() > 0
    with np.load(run / "gallery.npz") as gallery:
        shown = [gallery[name] for name in gallery.files]
    assert any(array.ndim == 4 and array.dtype == np.uint8 for array in shown)
    assert command("report", run, "-o", "page.html").code == 0
    page = Path("page.html").read_text()
    assert page.count("data:image/png") + page.count("<img") > 0


def test_weights_that_are_missing_or_others(
    runs: Runs, place: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, photos = runs("linear"), place / "photos" / "sea"
    about = json.loads((run / "model.json").read_text())
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes())
    about["encoding"]["weights"] = "0" * 16
    write_json(other / "model.json", about, sealed=True)
    answer = command("predict", other, photos, "-o", "named.csv")
    assert answer.code == 2
    assert "the encoder lite0 has other weights here" in answer.err
    assert not Path("named.csv").exists()
    with pytest.raises(RunError, match="other weights"):
        exporting.export(other, tmp_path / "model.onnx")
    monkeypatch.setattr(lite, "find_spec", lambda package: None)
    answer = command("predict", run, photos, "-o", "named.csv")
    assert answer.code == 2
    assert "pip install 'drpl[features]'" in answer.err
    assert not Path("named.csv").exists()
