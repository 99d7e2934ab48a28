"""Ten seeds of the campaign, in a process that forks before it has threads."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_ten_seeds(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "tests.campaign",
        "--seeds",
        "10",
        "--workers",
        "1",
        "--out",
        str(tmp_path / "place"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 failures" in ended.stdout
