"""Two Gaussians on losses where memory is short."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from pathlib import Path
from drpl.detection.gaussians import fit_lower_gaussian

pages = int(Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + 24 * 2**20  # too little for OpenBLAS
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    fit_lower_gaussian(torch.linspace(0, 1, 200))
except MemoryError:
    print("no memory")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
def test_too_little_memory_ends_in_an_error() -> None:
    """OpenBLAS would ask for its memory for ever."""
    words = [sys.executable, "-c", SCRIPT]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.strip() == "no memory", ended.stderr
