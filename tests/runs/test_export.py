"""An exported model gives the probabilities of the original, without this package."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.runs import export as exporting
from drpl.runs import model
from tests.conftest import Command
from tests.support.tiny import tiny_config

FORMATS = ("onnx", "torch")


def images(count: int, *shape: int) -> torch.Tensor:
    draws = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=draws)


def trained(data: DatasetSplits, out: Path, settings: Mapping[str, Any]) -> model.Model:
    config = tiny_config("cross_entropy", 2, settings)
    drpl.train(data, method="cross_entropy", config=config, out=out, quiet=True)
    return model.load(out)


def coloured(classes: tuple[str, ...] = ("ash", "böhm", "cedar tree")) -> DatasetSplits:
    x = images(60, 3, 12, 12).numpy()
    labels = np.arange(60) % 3
    x[labels == 1, 0] //= 3
    x[labels == 2, 2] //= 3
    return drpl.arrays(x, labels, classes=classes)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PreAct ResNet that looks at the middle of its images."""
    folder = tmp_path_factory.mktemp("run")
    trained(coloured(), folder, {"crop": 0.75})
    return folder


def session(path: Path) -> Any:
    return pytest.importorskip("onnxruntime").InferenceSession(path)


def test_onnx_equals_torch_on_a_thousand_images(run: Path, command: Command) -> None:
    runtime = pytest.importorskip("onnxruntime")
    answer = command("export", run, "--to", "onnx", "-o", "model.onnx")
    assert answer.code == 0, answer.err
    assert "largest difference on 32 random samples" in answer.out
    assert answer.err == ""
    x = images(1000, 3, 12, 12)
    given = runtime.InferenceSession("model.onnx")
    probs = given.run(None, {"input": x.numpy()})[0]
    wanted = model.load(run).predict(TensorImages(x)).numpy()
    assert probs.shape == (1000, 3)
    assert wanted.std() > 0.01  # there is something to tell apart
    assert np.abs(probs - wanted).max() < 1e-4
    assert given.run(None, {"input": x[:1].numpy()})[0].shape == (1, 3)
    about = given.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["ash", "böhm", "cedar tree"]
    assert json.loads(about["shape"]) == [3, 12, 12]
    assert json.loads(about["mean"]) == list(model.load(run).transform.mean)
    assert json.loads(about["crop"]) == 0.75


@pytest.mark.slow
def test_torch_runs_without_this_package(run: Path, command: Command, tmp_path: Path) -> None:
    assert command("export", run, "--to", "torch", "-o", "model.pt2").code == 0
    x = images(40, 3, 12, 12)
    torch.save(x, tmp_path / "x.pt")
    code = (
        "import sys; sys.modules['drpl'] = None\n"
        "import torch\n"
        "about = {'about.json': ''}\n"
        "program = torch.export.load('model.pt2', extra_files=about)\n"
        "torch.save(program.module()(torch.load('x.pt')).detach(), 'y.pt')\n"
        "print(about['about.json'])"
    )
    words = [sys.executable, "-c", code]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(json.loads(said.stdout)["classes"])[1] == "böhm"
    wanted = model.load(run).predict(TensorImages(x))
    assert torch.allclose(torch.load(tmp_path / "y.pt"), wanted, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("network", ["resnet18", "mlp"])
def test_other_networks(network: str, form: str, tmp_path: Path) -> None:
    if form == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    if network == "mlp":
        draws = np.random.default_rng(2)
        data = drpl.arrays(draws.normal(5, 3, size=(60, 7)), np.arange(60) % 3)
        x = torch.from_numpy(draws.normal(5, 3, size=(50, 7)).astype(np.float32))
    else:
        data, x = coloured(), images(50, 3, 12, 12)
    original = trained(data, tmp_path / "run", {"network": network})
    assert exporting.export(tmp_path / "run", tmp_path / "file", form) < 1e-5
    _, read = exporting.FORMATS[form]
    again = read((tmp_path / "file").read_bytes())
    assert torch.allclose(again(x), original.predict(TensorImages(x)), atol=1e-5)


def test_a_file_that_departs_is_not_written(
    run: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = exporting.Deployed.forward
    monkeypatch.setattr(exporting.Deployed, "forward", lambda self, x: forward(self, x) + 2e-4)
    answer = command("export", run, "--to", "torch", "-o", "model.pt2")
    assert answer.code == 2
    assert "depart from the model by 0.0002" in answer.err
    assert not Path("model.pt2").exists()


def test_what_is_missing_is_said(
    run: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no nowhere" in command("export", "nowhere", "-o", "x").err
    assert command("export", run, "--to", "tflite", "-o", "x").code == 2
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    answer = command("export", run, "--to", "onnx", "-o", "x")
    assert answer.code == 2
    assert "needs the package onnxruntime" in answer.err
    assert "pip install 'drpl[onnx]'" in answer.err
    assert not Path("x").exists()
