"""What runs an encoder."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from drpl.encoders import engine
from drpl.encoders.encoder import Encoder, load_encoder
from drpl.encoders.engine import run_by_torch
from drpl.errors import StorageError


def test_a_network_is_converted_once(
    converted: Path, lite0: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_export", lambda *_: pytest.fail("it was converted again"))
    again = load_encoder("lite0", size=64, cache=converted / "features")
    pixels = torch.full((2, 3, 64, 64), 90, dtype=torch.uint8)
    assert torch.equal(again.encode(pixels), lite0.encode(pixels))


def test_a_damaged_conversion_is_made_again(
    converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (good,) = (converted / "features").glob("lite0-*-64.onnx")
    content, made = good.read_bytes(), []

    def export(*_: object) -> bytes:
        made.append(1)
        return content

    monkeypatch.setattr(engine, "_export", export)
    (tmp_path / good.name).write_bytes(content[:1000])
    load_encoder("lite0", size=64, cache=tmp_path)
    assert made == [1]
    assert (tmp_path / good.name).read_bytes() == content


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder should be")
    with pytest.raises(StorageError, match=r"cannot write .*File exists"):
        load_encoder("lite0", size=64, cache=tmp_path / "file")


def test_a_network_stays_where_it_is_beside_what_runs_on_a_gpu() -> None:
    """Maps and exports are made of it on the CPU; the device `meta` stands for the GPU."""
    net = nn.Conv2d(3, 2, 1)
    run_by_torch(net, torch.device("meta"))
    assert {weight.device.type for weight in net.parameters()} == {"cpu"}


class Hungry(nn.Module):
    """Takes three images at most."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        if len(x) > 3:
            raise torch.OutOfMemoryError("no more")
        return x.float().mean((2, 3))


def test_batches_become_smaller_where_memory_ends() -> None:
    net = Hungry()
    pixels = torch.arange(7, dtype=torch.uint8).view(7, 1, 1, 1).expand(7, 3, 2, 2)
    assert run_by_torch(net, torch.device("cpu"))(pixels)[:, 0].tolist() == list(range(7))
    assert net.seen == [7, 7, 7, 4, 2, 2, 2, 1]  # asked for 32, 16, 8, 4 and then 2 at a time
