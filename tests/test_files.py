"""One writer at a time, files that are whole, and what a kill leaves behind."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drpl.data.sources import ReadOptions, load
from drpl.errors import RunError, StorageError
from drpl.files import explain_write_errors, lock_folder, read_json, write_atomic, write_json
from drpl.noise.write import write_noisy
from tests.conftest import Command
from tests.support.cleaned import make
from tests.support.killing import Killed
from tests.support.tiny import brief_options

HOLD = """
import sys, time
from pathlib import Path
from drpl.files import lock_folder, open_atomic
with lock_folder(Path(sys.argv[1])), open_atomic(Path(sys.argv[1]) / "file") as file:
    file.write(b"half")
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def held(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that is writing into a folder."""
    running = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"held\n"
    try:
        yield running
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()


def test_one_process_writes_and_a_kill_leaves_no_lock(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "out"
    made = make(tmp_path / "trees").folder
    brief = ["--method", "cross_entropy", "--limit", 20, *brief_options("cross_entropy"), "-q"]
    commands = [
        ("train", "digits", "--out", folder, *brief),
        ("clean", "digits", "-o", folder, "--limit", 20),
        ("noise", "digits", "--noise", "uniform:0.2", "--limit", 20, "-o", folder),
        ("apply", made, "-o", folder),
    ]
    with held(folder) as other:
        for words in commands:
            answer = command(*words)
            assert answer.code == 2
            assert answer.err.startswith("error: another process is writing into")
        (partial,) = folder.glob(".file*")
        assert str(other.pid) in partial.name
        write_atomic(folder / "file", "whole")  # somebody's report: their partial files differ
        assert partial.exists()
    assert command(*commands[0]).code == 0
    assert not list(folder.rglob("*.partial"))
    assert (folder / "file").read_text() == "whole"


def test_who_holds_a_folder_may_lock_it_again(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "a"), lock_folder(tmp_path / "a"), lock_folder(tmp_path / "b"):
        pass
    with lock_folder(tmp_path / "a"):
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = r"cannot write .*/x: Not a directory; a folder is wanted where that file is"
    with pytest.raises(StorageError, match=told), lock_folder(tmp_path / "file" / "x"):
        pass


def test_noise_goes_on_after_a_kill(
    command: Command, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load("digits", ReadOptions(limit=40))
    write_noisy(data, "uniform:0.2", Path("whole"))

    def die(*_: object) -> None:
        raise Killed

    for place in ("write_arrays", "write_json", "_summarize"):
        with monkeypatch.context() as patch:
            patch.setattr(f"drpl.noise.write.{place}", die)
            with pytest.raises(Killed):
                write_noisy(data, "uniform:0.2", Path("noisy"))
    words = ("noise", "digits", "--noise", "uniform:0.2", "--limit", 40, "-o", "noisy")
    assert command(*words).code == 0
    for name in ("labels.csv", "data.npz", "manifest.json"):
        assert (Path("noisy") / name).read_bytes() == (Path("whole") / name).read_bytes()
    write_noisy(data, "uniform:0.2", Path("noisy"))  # a finished one as well
    assert "holds something else than this noise" in mistake(*words, "--seed", 2)


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_file_that_has_no_name(name: str) -> None:
    with pytest.raises(StorageError, match="it is a folder; name a file"):
        write_atomic(Path(name), "text")


def test_a_sealed_file_is_what_was_written_or_refused(tmp_path: Path) -> None:
    """Whatever byte is changed: a figure that is still a figure, too."""
    path, value = tmp_path / "plan.json", {"mean": (0.25, 1e-3), "tuned": False, "names": ["é"]}
    write_json(path, value, sealed=True)
    whole, kept = path.read_bytes(), read_json(path)
    assert kept["mean"] == [0.25, 0.001]
    refused = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            found = read_json(path)
        except RunError:
            refused += 1
        else:  # a space, or the name of the seal itself
            assert {name: found[name] for name in value} == {name: kept[name] for name in value}
    assert refused > len(whole) / 2
    path.write_text(json.dumps({"mean": 1}))  # as version 0.1 wrote it
    assert read_json(path) == {"mean": 1}


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space or choose another folder"),
        (errno.EDQUOT, "free some space or choose another folder"),
        (errno.EEXIST, "a folder is wanted where that file is"),
        (errno.EROFS, "choose another folder, or have this one opened for writing"),
        (errno.EISDIR, "it is a folder, so name a file"),
        (errno.ENOENT, "choose another folder$"),
    ],
)
def test_space_is_to_be_freed_only_where_it_is_short(number: int, advice: str) -> None:
    with pytest.raises(StorageError, match=f"; {advice}"), explain_write_errors(Path("out")):
        raise OSError(number, os.strerror(number))


def test_an_existing_file_is_no_folder_to_write(mistake: Callable[..., str]) -> None:
    Path("make.py").touch()
    told = mistake("clean", "digits", "-o", "make.py")
    assert "cannot write make.py: File exists; a folder is wanted where that file is" in told
