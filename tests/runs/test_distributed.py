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
from safetensors.numpy import load_file

from drpl.registry import METHODS
from tests.support.tiny import brief_options


def words(method: str, out: Path, epochs: int) -> list[str]:
    command = ["-m", "drpl", "train", "digits", "--method", method, "--noise", "uniform:0.4"]
    command += ["--out", str(out), "--save-every", "0"]
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


def test_the_command_on_two_processes(tmp_path: Path) -> None:
    running = launched(words("drpl", tmp_path, 1))
    out, _ = running.communicate(timeout=300)
    assert running.returncode == 0, out
    assert out.count("accuracy   ") == 1  # one process speaks
    with np.load(tmp_path / "samples.npz") as samples:
        assert len(samples["loss"]) == 1438
        assert (samples["loss"] > 0).all()  # the tables are whole
    assert '"processes": 2' in (tmp_path / "provenance.json").read_text()


def test_killed_and_restarted_by_torchrun_resumes_exactly(tmp_path: Path) -> None:
    whole = launched(words("joint", tmp_path / "whole", 6))
    out, _ = whole.communicate(timeout=300)
    assert whole.returncode == 0, out

    broken = launched(words("joint", tmp_path / "broken", 6), restarts=2)
    diary = tmp_path / "broken" / "history.jsonl"
    while not (diary.exists() and len(diary.read_text().splitlines()) >= 3):
        assert broken.poll() is None
        time.sleep(0.05)
    os.kill(worker_of(broken.pid), signal.SIGKILL)
    out, _ = broken.communicate(timeout=300)
    assert broken.returncode == 0, out
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(np.array_equal(a[key], b[key]) for key in a)
    samples = [(tmp_path / name / "samples.csv").read_bytes() for name in ("whole", "broken")]
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
