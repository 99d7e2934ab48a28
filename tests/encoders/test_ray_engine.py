"""Encoding on a Ray cluster."""

import os
import signal
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions
from drpl.encoders.encode import encode
from drpl.errors import ConfigError
from tests.conftest import Command
from tests.support.encoders import SLOWED, draw_folder, finish, start, write_model

with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


def test_ray_that_is_not_there(
    photos: Path, tiny_model: str, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ("encode", photos, "-o", "x.npz", "--encoder", tiny_model, "--engine", "ray")
    assert "pip install 'drpl[ray]'" in mistake(*words)


def test_images_in_arrays_are_not_spread(tiny_model: str, tmp_path: Path) -> None:
    data = arrays(np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1])
    options = ReadOptions(cache=tmp_path / "cache", engine="ray")
    with pytest.raises(ConfigError, match="spreads image files, and these images are in arrays"):
        encode(data, tiny_model, read_options=options)


@with_ray
@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path: Path, command: Command) -> None:
    """Files of two classes, one of them broken, by two workers of which one is lost."""
    write_model(tmp_path / "tiny.onnx")
    draw_folder(tmp_path / "photos", 3000)
    (tmp_path / "photos" / "ash" / "text.png").write_text("no picture")
    words = ("encode", "photos", "--encoder", "onnx:tiny.onnx", "--mirrored", "--skip-broken")
    assert command(*words, "--cache", "one", "-o", "here.npz").code == 0
    more = ("--cache", "two", "-o", "there.npz", "--engine", "ray")
    running = start(SLOWED, 8, 0, *words, *more, where=tmp_path)
    while not any(path.stat().st_size for path in tmp_path.glob("two/features/*.keys")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    workers = list_workers(running.pid)
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    finish(running)
    assert Path("there.npz").read_bytes() == Path("here.npz").read_bytes()


def list_workers(ancestor: int) -> list[int]:
    """The processes below this one that encode."""
    parents, busy = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                busy.append(int(path.name))
        except OSError:  # it has just ended
            continue

    def below(pid: int) -> bool:
        return pid == ancestor or (pid in parents and below(parents[pid]))

    return [pid for pid in busy if below(pid)]
