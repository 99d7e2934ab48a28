"""Two processes on one machine (gloo), started as a user would."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn

from drpl import Recorder, distributed
from drpl.registry import METHODS
from tests.runs import two_recorders
from tests.support.tiny import brief_options


def words(method: str, out: Path, epochs: int) -> list[str]:
    command = ["-m", "drpl", "train", "digits", "--method", method, "--noise", "uniform:0.4"]
    command += ["--limit", "320", "--out", str(out), "--save-every", "0"]
    return command + brief_options(method, epochs)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def launched(arguments: list[str], restarts: int = 0) -> "subprocess.Popen[str]":
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--master-port", str(free_port()), "--max-restarts", str(restarts)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        launcher + arguments,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )


def test_every_method_on_two_processes(tmp_path: Path) -> None:
    """Every stage ends with a check that both hold the same weights and tables."""
    running = launched(["-m", "tests.runs.two_processes", str(tmp_path)])
    out, _ = running.communicate(timeout=600)
    assert running.returncode == 0, out
    for method in METHODS:
        with np.load(tmp_path / method / "samples.npz") as samples:
            assert len(samples["loss"]) == 72
            assert np.isfinite(samples["loss"]).all()
        assert '"processes": 2' in (tmp_path / method / "provenance.json").read_text()


def test_two_recorders_are_gathered(tmp_path: Path) -> None:
    """As one recorder that saw it all, though both were stopped and went on."""
    running = launched(["-m", "tests.runs.two_recorders", str(tmp_path / "state.pt")])
    out, _ = running.communicate(timeout=300)
    assert running.returncode == 0, out
    alone = Recorder(two_recorders.SAMPLES, two_recorders.CLASSES)
    for epoch in range(two_recorders.EPOCHS):
        for index in two_recorders.draw_batches(epoch):
            alone.record(index, two_recorders.draw_logits(epoch)[index])
    found = torch.load(tmp_path / "state.pt", weights_only=True)
    for name in ("latest", "sums", "count"):
        torch.testing.assert_close(found[name], alone.state_dict()[name])


def test_a_history_on_disk_is_compared_beside_a_network_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For which the device `meta` stands here: it multiplies nothing, but mixes with no other."""
    module, compared = nn.Linear(2, 2, device="meta"), list[str]()
    module.register_buffer("history", torch.ones(3))

    def broadcast(sums: Tensor) -> Tensor:
        compared.append(sums.device.type)
        return sums

    monkeypatch.setattr(distributed, "world", lambda: 2)
    monkeypatch.setattr(distributed, "find_device", lambda: torch.device("meta"))
    monkeypatch.setattr(distributed, "broadcast", broadcast)
    monkeypatch.setattr(torch, "equal", lambda *_: True)
    distributed.check_agreement(module)
    assert compared == ["meta"]


@pytest.mark.slow
def test_fewer_dimensions_are_the_same_on_two_processes(tmp_path: Path) -> None:
    running = launched(["-m", "tests.runs.two_projections", str(tmp_path)])
    out, _ = running.communicate(timeout=300)
    assert running.returncode == 0, out
    assert load_file(tmp_path / "model.safetensors")["basis"].shape == (20, 6)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that nothing disturbed, and what it said."""
    folder = tmp_path_factory.mktemp("whole")
    running = launched(words("joint", folder, 6))
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 0, said
    return folder, said


def test_the_command_on_two_processes(whole: tuple[Path, str]) -> None:
    folder, said = whole
    assert said.count("accuracy   ") == 1  # one process speaks
    with np.load(folder / "samples.npz") as samples:
        assert len(samples["loss"]) == 320
        assert (samples["loss"] > 0).all()  # the tables are whole
    assert '"processes": 2' in (folder / "provenance.json").read_text()


@pytest.mark.slow
def test_killed_and_restarted_by_torchrun_resumes_exactly(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    broken = launched(words("joint", tmp_path, 6), restarts=2)
    diary = tmp_path / "history.jsonl"
    while not (diary.exists() and len(diary.read_text().splitlines()) >= 3):
        assert broken.poll() is None
        time.sleep(0.05)
    os.kill(worker_of(broken.pid), signal.SIGKILL)
    out, _ = broken.communicate(timeout=300)
    assert broken.returncode == 0, out
    a, b = (load_file(folder / "model.safetensors") for folder in (whole[0], tmp_path))
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[key], b[key]) for key in a)
    samples = [(folder / "samples.csv").read_bytes() for folder in (whole[0], tmp_path)]
    assert samples[0] == samples[1]


def worker_of(launcher: int) -> int:
    """A process whose parent is the launcher."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if re.search(rf"^PPid:\t{launcher}$", status.read_text(), re.MULTILINE):
                return int(status.parent.name)
        except OSError:
            continue
    raise AssertionError("the launcher has no worker")
