"""Commands in processes of their own, which are forked: torch is imported once for all of them."""

import contextlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drpl.__main__ import main

LIMIT = 120.0  # seconds that a command may take; on a loaded machine they take long
HUNG = -1000  # the code of one that took longer


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
            return "hung"
        if "Traceback" in self.err:
            return "traceback"
        if self.code < 0 and self.code != -signal.SIGKILL:
            return f"ended by signal {-self.code}"
        if self.code not in (0, 1, 2, 130, -signal.SIGKILL):
            return f"exit code {self.code}"
        if self.code == 2 and not self.err.strip():
            return "exit code 2 without a word"
        return None


def run(
    words: Sequence[object],
    where: Path,
    *,
    kill_after: float | None = None,
    prepare: Callable[[], None] | None = None,
    limit: float = LIMIT,
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
    code, asked = None, False
    while code is None:
        time.sleep(0.002)
        said += _read_all(hear)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
        elif kill_after is not None and not asked and time.monotonic() - began > kill_after:
            os.kill(child, signal.SIGKILL)
            asked = True
        elif time.monotonic() - began > limit:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            code = HUNG
    said += _read_all(hear)
    os.close(hear)
    return Ended(texts, code, said.decode(errors="replace"), time.monotonic() - began)


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
