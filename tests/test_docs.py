"""What README and docs claim is what the result files say, and their code runs."""

import json
import re
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def test_the_demo_table_is_the_measured_one() -> None:
    """Mean of the seeds, as `make bench` wrote it."""
    rows = json.loads((RESULTS / "demo.json").read_text())
    for page in ("README.md", "docs/methods.md"):
        text = (ROOT / page).read_text()
        for method in ("cross_entropy", "mixup", "drpl"):
            runs = [row for row in rows if row["method"] == method]
            cells = [
                f"{mean(run['accuracy'][key] for run in runs):.2f}" for key in ("last", "best")
            ]
            cells += [
                f"{mean(run['detection'][k] for run in runs):.4f}" for k in ("auroc", "tpr", "fpr")
            ]
            line = next(row for row in text.splitlines() if row.startswith(f"| `{method}` |"))
            assert [cell.strip() for cell in line.split("|")[2:7]] == cells, page


def test_the_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(code) == 1
    short = code[0].replace(
        'preset="digits"',
        'preset="digits", settings=[f"{s}_schedule.{k}" for s in '
        '("relabel", "warmup", "detect", "final") for k in ("epochs=2", "rates=[[1, 0.1]]")] '
        '+ ["relabel.begin=1", "width=4"], quiet=True',
    )
    assert short != code[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(short, "README.md", "exec"), {})
    assert (tmp_path / "report.html").stat().st_size > 10_000
