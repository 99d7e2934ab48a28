"""Any image model in an ONNX file."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto

from drpl.encoders.encoder import load_encoder
from drpl.encoders.onnx_file import MEAN, STD
from drpl.errors import ConfigError
from tests.support.encoders import FLOAT, write_model

TOKENS = (("ReduceMean", {"axes": [3], "keepdims": 0}),)
POOL_LAST = (("ReduceMean", {"axes": [1, 2], "keepdims": 0}),)
COLOURS = torch.tensor([51, 102, 204], dtype=torch.uint8)  # 0.2, 0.4 and 0.8 of white


def plain(count: int, side: int = 16) -> torch.Tensor:
    """Images of one colour."""
    return COLOURS.view(1, 3, 1, 1).expand(count, 3, side, side)


def scaled(mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
    return (COLOURS / 255 - torch.tensor(mean)) / torch.tensor(std)


USUAL = scaled(MEAN, STD)
HALVES = scaled((0.5,) * 3, (0.25,) * 3)


@pytest.mark.parametrize(
    ("model", "options", "wanted"),
    [
        ({}, "", USUAL),
        ({"shape": ("n", 16, 16, 3), "nodes": POOL_LAST}, "", USUAL),
        ({"shape": ("n", "h", "w", "c"), "nodes": POOL_LAST}, ",layout=nhwc", USUAL),
        ({"nodes": (("Identity", {}),)}, "", USUAL),  # a map, which is pooled
        ({"nodes": TOKENS}, "", USUAL.mean().expand(16)),  # three of 16 numbers, which are pooled
        ({"kind": TensorProto.UINT8}, "", COLOURS.float()),
        ({"metadata": {"mean": "[0.5, 0.5, 0.5]", "std": "[0.25, 0.25, 0.25]"}}, "", HALVES),
        ({}, ",mean=0.5/0.5/0.5,std=0.25/0.25/0.25", HALVES),
        ({"metadata": {"mean": "[0, 0, 0]"}}, ",mean=0.5/0.5/0.5,std=0.25/0.25/0.25", HALVES),
        ({"shape": (1, 3, 16, 16)}, "", USUAL),  # one image at a time
        ({"shape": (4, 3, 16, 16)}, "", USUAL),  # four, no fewer
    ],
)
def test_models_of_many_kinds(
    tmp_path: Path, model: dict[str, object], options: str, wanted: torch.Tensor
) -> None:
    path = write_model(tmp_path / "model.onnx", **model)  # type: ignore[arg-type]
    size = 16 if "h" in str(model.get("shape")) else None
    encoder = load_encoder(f"onnx:{path}{options}", size=size)
    assert encoder.size == 16
    found = encoder.encode(plain(6))
    assert found.shape == (6, encoder.dim)
    assert torch.allclose(found, wanted.expand(6, -1), atol=1e-5)


def test_a_model_of_any_size_takes_the_usual_one(tmp_path: Path) -> None:
    name = f"onnx:{write_model(tmp_path / 'model.onnx', ('n', 3, 'h', 'w'))}"
    assert load_encoder(name).size == 224
    assert load_encoder(name, size=40).size == 40


SCALAR = (("ReduceMean", {"keepdims": 0}),)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ({"inputs": 2}, "", r"has 2 inputs \(x0, other1\); an encoder takes images"),
        ({"nodes": SCALAR}, "", r"gives \(\) for 1 images; wanted is a vector each"),
        ({"shape": ("n", 5)}, "", r"takes tensor\(float\) of shape \['n', 5\]"),
        ({"shape": ("n", 4, 16, 16)}, "", r"takes images of 4 channels"),
        ({"kind": TensorProto.INT64}, "", r"takes tensor\(int64\) of shape"),
        (
            {"metadata": {"std": "grey"}},
            "",
            "metadata of .*: std wants three numbers that are not 0, not 'grey'",
        ),
        ({}, ",maen=1/2/3", "unknown 'maen=1/2/3'; did you mean 'mean'"),
        ({}, ",mean=a/b", r"mean wants three numbers, not \['a', 'b'\]"),
        ({}, ",mean=0.1/0.2", r"mean wants three numbers, not \['0.1', '0.2'\]"),
        ({}, ",std=0/0/0", "std wants three numbers that are not 0, not "),
        ({}, ",layout=hwc", "layout is nchw or nhwc, not 'hwc'"),
        ({"shape": (1, 3, 16, 16), "nodes": (("Reshape", {}),)}, "", "onnxruntime cannot run"),
    ],
)
def test_models_that_do_not_fit(
    tmp_path: Path, model: dict[str, object], options: str, sentence: str
) -> None:
    path = write_model(tmp_path / "model.onnx", **model)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=sentence):
        load_encoder(f"onnx:{path}{options}")


def test_a_size_that_the_model_does_not_take(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx")
    with pytest.raises(ConfigError, match="takes images of 16 px, not of 32; leave --size out"):
        load_encoder(f"onnx:{path}", size=32)


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    nodes = [(name, dict[str, Any]()) for name in ("GlobalAveragePool", "Flatten", "Log")]
    path = write_model(tmp_path / "model.onnx", nodes=nodes)
    with pytest.raises(ConfigError, match="gives values that are not finite"):
        load_encoder(f"onnx:{path}").encode(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))


def test_files_that_are_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model at all")
    with pytest.raises(ConfigError, match=r"model.onnx: onnxruntime cannot run this model: "):
        load_encoder(f"onnx:{tmp_path / 'model.onnx'}")
    with pytest.raises(ConfigError, match=r"there is no ONNX file nowhere\.onnx"):
        load_encoder("onnx:nowhere.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"pip install 'drpl\[onnx\]'"):
        load_encoder(f"onnx:{tmp_path / 'model.onnx'}")


def test_another_model_or_scaling_has_another_fingerprint(tmp_path: Path) -> None:
    """A store must not take the vectors of one for those of the other."""
    path = write_model(tmp_path / "model.onnx")
    first = load_encoder(f"onnx:{path}")
    other = load_encoder(f"onnx:{path},mean=0.5/0.5/0.5")
    write_model(path, kind=FLOAT, metadata={"mean": "[0.4, 0.4, 0.4]"})
    changed = load_encoder(f"onnx:{path}")
    assert len({first.weights, other.weights, changed.weights}) == 3
    assert load_encoder(f"onnx:{path}").weights == changed.weights


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", metadata={"location": "weights.bin"})
    np.zeros(4).tofile(tmp_path / "other.bin")
    first = load_encoder(f"onnx:{path}").weights
    np.zeros(4).tofile(tmp_path / "weights.bin")
    second = load_encoder(f"onnx:{path}").weights
    assert first != second
    np.zeros(5).tofile(tmp_path / "other.bin")
    assert load_encoder(f"onnx:{path}").weights == second
