"""One `lite0` for all tests, converted for onnxruntime once."""

from pathlib import Path

import pytest

from drpl.encoders.encoder import Encoder, load_encoder
from tests.support.encoders import draw_folder, write_model


@pytest.fixture(scope="session")
def lite0(converted: Path) -> Encoder:
    return load_encoder("lite0", size=64, cache=converted / "features")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twenty pictures of two classes."""
    return draw_folder(tmp_path / "photos", 20)


@pytest.fixture
def tiny_model(tmp_path: Path) -> str:
    """An encoder that gives the mean colours of squares of 16 pixels."""
    return f"onnx:{write_model(tmp_path / 'tiny.onnx')}"
