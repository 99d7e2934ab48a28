"""Threads, where there is memory for them."""

import subprocess
import sys

import pytest

LIMITED = """
import resource, sys
from pathlib import Path
from drpl.data.threads import start_threads
most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (most + int(sys.argv[1]) * 2**20, resource.RLIM_INFINITY))
try:
    with start_threads(8) as threads:
        print(sum(threads.map(abs, range(-8, 0))))
except MemoryError:
    print("no room")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's here")
@pytest.mark.parametrize(("megabytes", "said"), [(100, "no room"), (2000, "36")])
def test_threads_are_not_started_where_memory_is_short(megabytes: int, said: str) -> None:
    """A thread that ends as it starts is one that Python waits for, for ever."""
    words = [sys.executable, "-c", LIMITED, str(megabytes)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == said
