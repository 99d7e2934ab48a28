"""What README and docs claim is what the result files say, and their code runs."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from benchmarks import mini, pages

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def test_the_tables_are_the_measured_ones() -> None:
    """Every page is as `benchmarks/pages.py` would make it, and every table is on one."""
    shown = set()
    for page in pages.PAGES:
        text = page.read_text("utf-8")
        assert pages.filled(text) == text, page
        shown |= {found[1] for found in pages.MADE.findall(text)}
    assert shown == set(pages.TABLES)


def test_the_mini_tables_follow_from_the_cells() -> None:
    cells, stages = (pd.read_csv(RESULTS / "mini" / f"{n}.csv") for n in ("table", "stages"))
    assert mini.summary(cells, stages) == (RESULTS / "mini" / "summary.md").read_text()


def test_the_time_of_vectors_is_the_measured_one() -> None:
    found = json.loads((RESULTS / "vectors.json").read_text())
    text = " ".join((ROOT / "docs" / "deploy.md").read_text().split())
    assert f"{found['samples']:,} vectors of {found['features']} features" in text
    assert (
        f"take {found['seconds']:.0f} s on two cores, with an AUROC of {found['auroc']:.3f}" in text
    )


def test_the_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(code) == 1
    brief = {
        f"{stage}_schedule": {"epochs": 2, "lr": [[1, 0.1]]}
        for stage in ("relabel", "warmup", "detect", "final")
    }
    settings = {"width": 4, "relabel": {"begin": 1}, **brief}
    tiny = f'preset="digits", settings={settings}, quiet=True'
    short = code[0].replace('preset="digits"', tiny)
    assert short != code[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(short, "README.md", "exec"), {})
    assert (tmp_path / "report.html").stat().st_size > 10_000
