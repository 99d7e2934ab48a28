"""The notebooks of examples/ run, and print what is stored in them."""

import json
import re
import subprocess
import sys
from math import isclose
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def read_cells(path: Path) -> list[dict[str, Any]]:
    """The cells with code, in their order."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def to_python(source: str) -> str:
    """The source of a cell with lines `!drpl ...`, which are for a shell, as calls."""
    lines = [
        f"run_shell({line[1:]!r})" if line.startswith("!") else line for line in source.split("\n")
    ]
    return "\n".join(lines)


def run_shell(line: str) -> None:
    program, *words = line.split()
    assert program == "drpl"
    done = subprocess.run(
        [sys.executable, "-m", "drpl", *words], capture_output=True, text=True, check=True
    )
    sys.stdout.write(done.stdout)


def find_printed(cell: dict[str, Any]) -> str:
    """What is stored as printed by a cell."""
    return "".join(
        "".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream"
    )


def assert_alike(printed: str, stored: str) -> None:
    """The same words; numbers may differ by 5 %, as another processor rounds otherwise."""
    now, then = (NUMBER.sub("#", text).split() for text in (printed, stored))
    assert now == then
    for found, known in zip(NUMBER.findall(printed), NUMBER.findall(stored), strict=True):
        new, old = (float(number.replace(",", "")) for number in (found, known))
        assert isclose(new, old, rel_tol=0.05, abs_tol=0.03), (found, known, printed)


def test_all_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["noise", "photos", "text"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its own assertions hold, too: what its text says is checked by its cells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {"__name__": "__main__", "run_shell": run_shell}
    compared = 0
    for cell in read_cells(path):
        exec(compile(to_python("".join(cell["source"])), path.name, "exec"), names)
        stored = find_printed(cell)
        assert_alike(capsys.readouterr().out, stored)
        compared += bool(stored)
    plt.close("all")
    assert compared >= 3
    assert Path.cwd().is_relative_to(tmp_path)  # nothing is left behind elsewhere


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_without_traces_of_a_machine(path: Path) -> None:
    cells = read_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for out in cell["outputs"]:
            assert out["output_type"] != "error"
            assert out.get("name") != "stderr"
            text = json.dumps(out.get("text") or out["data"].get("text/plain"))
            assert not re.search(r"/(tmp|home|Users|root|var|opt)/|[A-Z]:\\", text), text
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize(
    ("printed", "stored"),
    [("3 of 10", "4 of 10"), ("AUROC 0.90", "AUROC 0.97"), ("3 wrong", "3 right"), ("1", "1 2")],
)
def test_another_number_or_word_is_found(printed: str, stored: str) -> None:
    with pytest.raises(AssertionError):
        assert_alike(printed, stored)
