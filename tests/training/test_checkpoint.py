import contextlib
import hashlib
import io
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from drpl.errors import RunError, StorageError
from drpl.methods.cross_entropy import Classify
from drpl.training import checkpoint
from drpl.training.checkpoint import Checkpoint, SaveTimer
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage
from tests.support.killing import Killed


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


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of more than 64 bytes are cut into parts of as many."""
    monkeypatch.setattr(checkpoint, "PART", 64)
    monkeypatch.setattr("os.fsync", lambda _: None)  # no test cuts the power


def large(*changed: int) -> Classify:
    """A stage with a table of 16 rows of 64 bytes, some of them changed."""
    table = torch.arange(16.0)[:, None].repeat(1, 16)
    table[list(changed)] += 100
    torch.manual_seed(1)
    return Classify(nn.Linear(4, 16, bias=False), table)


def restore(path: Path, stage: Stage) -> None:
    found = checkpoint.read(path)
    assert found is not None
    sgd = Schedule(epochs=1, lr=((1, 0.1),)).make_optimizer(stage.parameters())
    replace(found, optimizer=None).restore(stage, sgd, path)


def list_parts(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_ino for p in (folder / "train.parts").iterdir()}


@pytest.mark.usefixtures("parts")
def test_large_tensors_are_read_from_their_parts(tmp_path: Path) -> None:
    path, original, other = tmp_path / "train.pt", large(3), large()
    predictions = {"latest": torch.rand(40, 3), "count": torch.ones(2)}
    state = {"state": {0: {"momentum_buffer": torch.rand(16, 4)}}, "param_groups": []}
    tracked = torch.rand(3, 2, 16)
    checkpoint.write(
        path, Checkpoint(7, original.state_dict(), state, tracked, (9.0, {}), predictions)
    )
    assert path.stat().st_size < 10_000
    found = checkpoint.read(path)
    assert found is not None
    assert found.best == (9.0, {})
    assert found.predictions is not None
    assert found.optimizer is not None
    for name, table in predictions.items():
        assert torch.equal(found.predictions[name], table)
    momentum = found.optimizer["state"][0]["momentum_buffer"]
    assert torch.equal(momentum, state["state"][0]["momentum_buffer"])  # type: ignore[index]
    assert torch.equal(found.tracked, tracked)
    restore(path, other)
    for name, table in original.state_dict().items():
        assert torch.equal(other.state_dict()[name], table), name


@pytest.mark.usefixtures("parts")
def test_a_large_convolution_has_its_channels_last(tmp_path: Path) -> None:
    """As networks are built."""
    path = tmp_path / "train.pt"
    original, other = (
        Stage(nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last))  # type: ignore[call-overload]
        for _ in range(2)
    )
    checkpoint.write(path, replace(kept(large()), stage=original.state_dict()))
    restore(path, other)
    assert torch.equal(other.state_dict()["net.weight"], original.state_dict()["net.weight"])


@pytest.mark.usefixtures("parts")
def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "train.pt", kept(large()))
    before = list_parts(tmp_path)
    assert len(before) == 16 + 4  # rows, and the weights
    checkpoint.write(tmp_path / "train.pt", kept(large(3, 5)))
    after = list_parts(tmp_path)
    assert len(after.items() - before.items()) == 2
    assert len(after) == len(before)  # what is no longer needed is gone


@pytest.mark.usefixtures("parts")
def test_a_kill_while_saving_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file it comes at, before or after."""
    path, old, new = tmp_path / "train.pt", large(), large(3, 5)
    moving, removing = Path.replace, Path.unlink
    moves: list[str] = []

    def dying(move: Any) -> Any:
        def wrapped(self: Path, *words: Any, **more: Any) -> Any:
            if len(moves) == last:
                raise Killed
            moves.append(self.name)
            return move(self, *words, **more)

        return wrapped

    seen, finished, last = set(), False, -1
    while not finished:
        last += 1
        checkpoint.write(path, kept(old))
        moves.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", dying(moving))
            patch.setattr(Path, "unlink", dying(removing))
            with contextlib.suppress(Killed):
                checkpoint.write(path, kept(new))
                finished = True
        stage = large(1)
        restore(path, stage)
        seen.add([torch.equal(stage.targets, one.targets) for one in (old, new)].index(True))
    assert seen == {0, 1}
    assert last > 5


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_part_is_noticed(tmp_path: Path, damage: str) -> None:
    path, stage = tmp_path / "train.pt", large()
    checkpoint.write(path, kept(stage))
    part = next((tmp_path / "train.parts").iterdir())
    data = bytearray(part.read_bytes())
    data[5] ^= 1
    if damage == "gone":
        part.unlink()
    else:
        part.write_bytes(data if damage == "flip" else data[:9])
    with pytest.raises(RunError, match="damaged"):
        restore(path, stage)


@pytest.mark.usefixtures("parts")
def test_a_large_table_of_another_shape_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "train.pt", large()
    checkpoint.write(path, kept(large()))
    other.targets = torch.zeros(8, 32)
    with pytest.raises(RunError, match="does not fit"):
        restore(path, other)


def test_the_interval_follows_from_what_saving_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of 3 s, saves of 2 s, then of 0.1 s."""
    clock, saves, shares = [0.0], list[float](), list[float]()
    monkeypatch.setattr("drpl.training.checkpoint.time.monotonic", lambda: clock[0])
    timer, stage = SaveTimer(10), Stage(nn.Linear(2, 2))
    while clock[0] < 400:
        clock[0] += 3
        if timer.is_due(stage):
            saves.append(clock[0])
            with timer.measure():
                clock[0] += 2 if clock[0] < 300 else 0.1
            shares.append(timer.spent / clock[0])
    gaps = [b - a for a, b in pairwise(saves)]
    assert saves[0] == 12  # the stage is small, so it is expected to take next to nothing
    assert max(shares[1:]) <= checkpoint.SHARE
    assert 40 <= min(gaps[1:4]) <= max(gaps[1:4]) <= 46
    assert gaps[-1] < 14  # what is asked for


def test_the_first_save_of_large_tables_waits_for_what_it_will_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, stage = [0.0], Stage(nn.Linear(2, 2), targets=torch.zeros(1000, 100))
    monkeypatch.setattr("drpl.training.checkpoint.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoint, "SPEED", 400e3)  # so it is a second
    timer = SaveTimer(10)
    clock[0] = 39.0
    assert not timer.is_due(stage)  # nor would there be room for the one at the stage's end
    clock[0] = 41.0
    assert timer.is_due(stage)


def test_saving_after_every_epoch_can_be_asked_for() -> None:
    timer = SaveTimer(0)
    with timer.measure():
        time.sleep(0.01)
    assert timer.is_due(Stage(nn.Linear(2, 2)))
