"""Commands in processes of their own, which are forked: libraries are imported once for all."""

import contextlib
import importlib
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import drpl
from drpl.__main__ import main

IDLE = 60.0  # seconds without any work after which a command hangs, however loaded the machine is
BUSY = 90.0  # seconds of work, of which the longest command needs a tenth
HUNG = -1000  # the code of one that hung
LOADED = ("matplotlib.pyplot", "pandas", "sklearn.linear_model", "scipy.stats", "torch._dynamo")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: tuple[str, ...]
    code: int  # negative: the signal that killed it
    err: str
    seconds: float

    @property
    def failure(self) -> str | None:
        """What nobody should see, if it is there."""
        if self.code == HUNG:
            return "hangs"
        if "Traceback" in self.err:
            return "tracebacks"
        if self.code < 0 and self.code != -signal.SIGKILL:
            return f"ended by signal {-self.code}"
        if self.code not in (0, 1, 2, 130, -signal.SIGKILL):
            return f"exit code {self.code}"
        if self.code == 2 and not self.err.strip():
            return "exit code 2 without a word"
        return None


def import_all() -> None:
    """Import what the commands import, which takes longer than most of them."""
    for module in pkgutil.walk_packages(drpl.__path__, "drpl."):
        with contextlib.suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(module.name)
    for name in LOADED:
        importlib.import_module(name)


def run(
    words: Sequence[object],
    where: Path,
    *,
    kill_after: float | None = None,
    prepare: Callable[[], None] | None = None,
) -> Ended:
    """Run `drpl WORDS` in a folder; `prepare` is called in its process first."""
    where.mkdir(parents=True, exist_ok=True)
    texts, began, said = tuple(map(str, words)), time.monotonic(), b""
    hear, speak = os.pipe()  # no file: faults are for what commands write
    child = os.fork()
    if not child:
        _become(texts, where, speak, prepare)
    os.close(speak)
    os.set_blocking(hear, False)
    code, asked, work = None, False, _Work(child)
    while code is None:
        time.sleep(0.005)
        said += _read_all(hear)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
        elif kill_after is not None and not asked and time.monotonic() - began > kill_after:
            os.kill(child, signal.SIGKILL)
            asked = True
        elif work.hangs():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            code = HUNG
    said += _read_all(hear)
    os.close(hear)
    return Ended(texts, code, said.decode(errors="replace"), time.monotonic() - began)


class _Work:
    """What a process does, looked at now and then."""

    def __init__(self, process: int) -> None:
        self.path, self.seconds = Path(f"/proc/{process}/stat"), 0.0
        self.looked = self.last = time.monotonic()

    def hangs(self) -> bool:
        """Whether it has done nothing for long, or too much."""
        now = time.monotonic()
        if now < self.looked + 1:
            return False
        fields = self.path.read_text().rpartition(")")[2].split()
        used = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        if used > self.seconds:
            self.last = now
        self.looked, self.seconds = now, used
        return now - self.last > IDLE or used > BUSY


def _read_all(hear: int) -> bytes:
    """What a command has said by now."""
    said = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(hear, 2**16):
            said += part
    return said


def _become(
    words: tuple[str, ...], where: Path, speak: int, prepare: Callable[[], None] | None
) -> None:
    """Be that command, and leave without what this process would do at its end."""
    code = 70
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(speak, 2)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", errors="backslashreplace")
        )  # fmt: skip
        os.chdir(where)
        sys.argv = ["drpl", *words]
        if prepare:
            prepare()
        main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)
