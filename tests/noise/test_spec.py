"""Noise as text."""

import subprocess
import sys

from drpl.noise.spec import parse_spec, split_spec


def test_kinds_and_rates() -> None:
    assert parse_spec("uniform:0.2,scheme=official") == [("uniform", 0.2)]
    assert parse_spec("matrix:a+b.csv+ood:0.2") == [("matrix", None), ("ood", 0.2)]
    assert parse_spec("none") == [("none", None)]
    assert split_spec("matrix:a+b.csv+ood:0.2") == ["matrix:a+b.csv", "ood:0.2"]


def test_reading_the_text_needs_no_torch() -> None:
    code = "import sys, drpl.noise.spec; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
