import hashlib
import io
from pathlib import Path

import pytest
import torch
from torch import nn

from drpl.errors import RunError, StorageError
from drpl.methods.cross_entropy import Classify
from drpl.training import checkpoint
from drpl.training.checkpoint import Checkpoint
from drpl.training.schedule import Schedule


def stage(width: int = 3) -> Classify:
    return Classify(nn.Linear(4, width), torch.zeros(5, width))


def kept(of: Classify) -> Checkpoint:
    return Checkpoint(7, of.state_dict(), {"state": {}, "param_groups": []}, torch.zeros(0, 2, 5))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stages" / "train.pt"
    assert checkpoint.read(path) is None
    original = stage()
    checkpoint.write(path, kept(original))
    found = checkpoint.read(path)
    assert found is not None
    assert found.epoch == 7
    assert not found.finished
    assert torch.equal(found.stage["net.weight"], original.state_dict()["net.weight"])


@pytest.mark.parametrize("where", [0, 40, 500, -1])
def test_a_flipped_byte_is_noticed(tmp_path: Path, where: int) -> None:
    path = tmp_path / "train.pt"
    checkpoint.write(path, kept(stage()))
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(RunError, match="damaged"):
        checkpoint.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "7"},
        {"stage": [1, 2]},
        {"optimizer": 3},
        {"tracked": torch.zeros(2, 5)},
        {"predictions": {"probs": 3}},
        {"unknown": 1},
    ],
)
def test_a_right_seal_on_other_content(tmp_path: Path, change: dict[str, object]) -> None:
    """The seal says that nothing was changed since, not that it is a checkpoint."""
    content = io.BytesIO()
    torch.save(vars(kept(stage())) | change, content)
    seal = hashlib.sha256(content.getvalue()).digest()
    (tmp_path / "train.pt").write_bytes(seal + content.getvalue())
    with pytest.raises(RunError, match="is damaged"):
        checkpoint.read(tmp_path / "train.pt")


def test_another_network_is_refused(tmp_path: Path) -> None:
    schedule = Schedule(epochs=1, lr=((1, 0.1),))
    other = stage(width=4)
    with pytest.raises(RunError, match="does not fit"):
        kept(stage()).restore(other, schedule.make_optimizer(other.parameters()), tmp_path)


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.pt"
    checkpoint.write(path, kept(stage()))
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        checkpoint.write(path, kept(stage()))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["train.pt"]
