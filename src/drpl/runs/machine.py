"""A machine that others use too: its cores, its memory, how threads wait, and with what priority.

OpenMP, by which torch uses several cores, reads its variables once, when it is loaded. So they are
set when `drpl` is imported, and this module must not import torch.
"""

import os
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path, PurePosixPath

from drpl.errors import TrainingError

# How long a thread that waits for the others keeps its core before it sleeps: rounds of libgomp,
# and milliseconds of the runtimes of LLVM and Intel. Their own choices are so long that threads
# which share a core with another program wait most of the time; see docs/guide.md.
SPIN = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
NICER = 10  # as the command `nice` has it
ROOM = 512 * 2**20  # bytes that training may at least ask for


def prepare_threads() -> None:
    """Let threads wait briefly, and be no more than the cores there are; the user's choices win."""
    if "torch" in sys.modules:  # it has read them
        return
    if "OMP_WAIT_POLICY" not in os.environ:
        for name, value in SPIN.items():
            os.environ.setdefault(name, value)
    if (cores := count_cores()) < _count_allowed():  # which OpenMP knows itself, but not quotas
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def count_cores(root: Path = Path("/")) -> int:
    """The cores that this process may use, by its affinity and the quotas of its container."""
    return max(1, min([_count_allowed(), *map(ceil, _read_quotas(root))]))


def lower_priority() -> bool:
    """Let other programs go first; False where the system knows no such thing.

    Threads and processes that are started later inherit it, those that run already may not.
    """
    if not hasattr(os, "nice"):
        return False
    os.nice(NICER)
    return True


def check_memory() -> None:
    """Raise where a limit (`ulimit -v`) leaves too little to train.

    Where torch is refused memory in a backward pass, it ends the process without a word.
    """
    if sys.platform != "linux":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(Path("/proc/self/statm")).split()[:1]
    if limit == resource.RLIM_INFINITY or not pages:
        return
    left = limit - int(pages[0]) * resource.getpagesize()
    if left < ROOM:
        raise TrainingError(
            f"the limit of {limit / 2**20:,.0f} MB of memory leaves {max(0, left) / 2**20:,.0f}, "
            f"and networks need {ROOM / 2**20:,.0f}; raise it (ulimit -v)"
        )


def measure_peak() -> int:
    """Bytes of memory that this process has needed at most; 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _count_allowed() -> int:
    """The cores that the scheduler may put this process on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_quotas(root: Path) -> Iterator[float]:
    """The limits, in cores, of the control groups that this process is in; often none.

    A container sees its own group as the root, whatever path is listed; outside of one each
    group up to the root may have a limit.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounted = root / "sys/fs/cgroup" / ("cpu" if controllers else "")  # version 1 or 2
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            folder = mounted / str(group).lstrip("/")
            limit = _read(folder / "cpu.max").split() or [
                _read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
            ]
            if len(limit) == 2 and all(word.isdecimal() for word in limit):  # not max, not -1
                yield int(limit[0]) / max(1, int(limit[1]))


def _read(path: Path) -> str:
    """The text of a file, or nothing."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
