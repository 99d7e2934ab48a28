"""Tables above the budget are files: they hold the same numbers, and memory does not grow."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drpl.errors import StorageError
from drpl.methods.joint import Relabel, Relabelling
from drpl.training import tables
from drpl.training.feed import EpochPredictions
from drpl.training.predictions import PredictionMean
from drpl.training.stage import PredictionHistory
from drpl.training.tables import TableUpdate, is_mapped, make_table, split_rows
from tests.support.stages import make_feed, make_net, pass_epoch, scale_weights

LABELS = torch.arange(24) % 3

# A table of 256 MiB is filled and read part by part.
FILL = """
import json, resource, sys
from pathlib import Path
import torch
from drpl.training import tables
from drpl.training.tables import make_table, map_in, split_rows

tables.BUDGET, tables.PART = 2**20, 2**23
with map_in(Path(sys.argv[1])):
    torch.ones(2**22).sum()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    table, total = make_table(2**16, 2**10), 0.0
    for rows in split_rows(len(table), table):
        table[rows] = 1
    for rows in split_rows(len(table), table):
        total += float(table[rows].sum())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
left = len(list(Path(sys.argv[1]).iterdir()))
print(json.dumps({"peak": peak * 1024, "total": total, "left": left}))
"""


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every table of more than 100 bytes is mapped, and worked on in parts of a few rows."""
    monkeypatch.setattr(tables, "BUDGET", 100)
    monkeypatch.setattr(tables, "PART", 100)
    monkeypatch.setattr("drpl.training.tables.tempfile.gettempdir", lambda: str(tmp_path))


def test_a_small_table_is_in_memory_and_worked_on_at_once() -> None:
    table = make_table(24, 3)
    assert not is_mapped(table)
    assert list(split_rows(24, table)) == [slice(0, 24)]


@pytest.mark.usefixtures("mapped")
def test_a_large_table_is_a_file_without_a_name(tmp_path: Path) -> None:
    table = make_table(24, 3)
    assert is_mapped(table)
    assert is_mapped(table[3:])
    assert not any(tmp_path.iterdir())
    parts = [torch.arange(24)[rows] for rows in split_rows(24, table)]
    assert max(map(len, parts)) < 24
    assert torch.equal(torch.cat(parts), torch.arange(24))
    before = len(tables._maps)
    del table
    gc.collect()
    assert len(tables._maps) < before


@pytest.mark.usefixtures("mapped")
def test_what_was_written_stays_when_memory_is_handed_back() -> None:
    table = make_table(24, 3)
    for rows in split_rows(24, table):
        table[rows] = torch.arange(24.0)[rows, None]
    assert torch.equal(table, torch.arange(24.0)[:, None].expand(24, 3))


@pytest.mark.usefixtures("mapped")
def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found when the table is made: later it would end the process without a word."""

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(StorageError, match="No space left on device"):
        make_table(24, 3)


def test_memory_does_not_grow_with_a_mapped_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["total"] == 2**26
    assert found["left"] == 0
    assert found["peak"] < 2**26  # a quarter of the table


@pytest.mark.usefixtures("mapped")
def test_a_large_history_is_mapped_in_half_precision_and_stays_on_the_disk() -> None:
    stage = PredictionHistory(make_net(), 24, 3, window=10)
    assert stage.recent.dtype == torch.float16
    assert is_mapped(stage.recent)
    stage.to("meta")
    assert is_mapped(stage.recent)
    assert stage.visited.device.type == "meta"


def test_targets_are_the_same_but_for_the_precision(request: pytest.FixtureRequest) -> None:
    targets = []
    for fixture in (None, "mapped"):
        if fixture:
            request.getfixturevalue(fixture)
        stage = Relabel(make_net(), LABELS, 3, Relabelling(begin=2, window=2))
        for epoch in (1, 2, 3):
            pass_epoch(stage, make_feed(epoch, 22))  # two samples are left out of each
            scale_weights(stage, -1.5)
        assert is_mapped(stage.targets) == bool(fixture)
        targets.append(stage.targets)
    first, second = targets
    assert torch.allclose(first, second, atol=1e-3)
    assert not torch.equal(first, second)


def test_mean_predictions_are_the_same_to_the_last_bit(request: pytest.FixtureRequest) -> None:
    draws = torch.Generator().manual_seed(1)
    seen = [torch.rand(24, 3, generator=draws) for _ in range(4)]
    who = [torch.rand(24, generator=draws) < 0.5 for _ in range(4)]
    found = []
    for fixture in (None, "mapped"):
        if fixture:
            request.getfixturevalue(fixture)
        mean = PredictionMean(LABELS, epochs=4)
        for epoch, (probs, visited) in enumerate(zip(seen, who, strict=True), 1):
            mean.add(epoch, EpochPredictions(probs.clone(), visited))
        assert is_mapped(mean.state["probs"]) == bool(fixture)
        found.append(mean.average(torch.full((24, 3), 1 / 3)) or {})
    assert found[0].keys() == found[1].keys()
    for name, table in found[0].items():
        assert torch.equal(table, found[1][name]), name


def test_large_tables_in_memory_are_worked_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed on the way would otherwise take several times their memory."""
    table = make_table(1000, 3)
    assert len(list(split_rows(1000, table))) == 1
    monkeypatch.setattr(tables, "WHOLE", 5000)
    monkeypatch.setattr(tables, "PART", 3000)
    assert [rows.start for rows in split_rows(1000, table)] == [0, 250, 500, 750]


def test_rows_of_all_processes_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process is this one backwards."""
    monkeypatch.setattr(tables, "all_reduce_sum", lambda table: table + table.flip(0))
    found = TableUpdate(5, 2, device=torch.device("cpu"))
    found.put(torch.tensor([1, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True))
    ((rows, new, seen),) = found.gather()
    assert rows == slice(0, 5)
    assert new.tolist() == [[3, 4], [1, 2], [0, 0], [1, 2], [3, 4]]
    assert seen[:, 0].tolist() == [True, True, False, True, True]
    assert not new.requires_grad


def test_a_gathered_table_may_be_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BUDGET", 64)
    monkeypatch.setattr(tables, "PART", 64)
    found = TableUpdate(24, 3, device=torch.device("cpu"))
    assert is_mapped(found.new)
    found.put(torch.arange(24), torch.arange(72.0).view(24, 3))
    parts = [(rows, new.clone()) for rows, new, _ in found.gather()]
    assert len(parts) > 2
    assert torch.cat([new for _, new in parts]).flatten().tolist() == list(range(72))
