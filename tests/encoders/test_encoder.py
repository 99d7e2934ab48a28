"""Encoders by name."""

import pytest

from drpl.encoders.encoder import load_encoder
from drpl.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lite1", r"unknown encoder 'lite1'; did you mean 'lite[02]'\?"),
        ("onyx:model.onnx", r"unknown encoder 'onyx:'; did you mean 'onnx:'\?"),
        ("onnx:", r"onnx: wants a name or a file behind the colon"),
        ("resnet", r"unknown encoder 'resnet'; known are hf:, lite0"),
        ("lite0:64", r"unknown encoder 'lite0:'; did you mean 'lite0'\?"),
    ],
)
def test_names_that_nobody_knows(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_encoder(name)
