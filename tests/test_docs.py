"""What README and docs claim is what the result files say, and their code runs."""

import importlib.util
import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
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


def test_the_mini_tables_are_the_measured_ones() -> None:
    """Every figure follows from the cells, and the pages show nothing else."""
    spec = importlib.util.spec_from_file_location("mini", ROOT / "benchmarks" / "mini.py")
    assert spec
    assert spec.loader
    mini = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mini)
    cells, stages = (pd.read_csv(RESULTS / "mini" / f"{n}.csv") for n in ("table", "stages"))
    written = (RESULTS / "mini" / "summary.md").read_text()
    assert mini.summary(cells, stages) == written
    for page in ("README.md", "docs/mini.md"):
        text = (ROOT / page).read_text()
        (shown,) = re.findall(r"<!-- mini -->\n(.*?)<!-- end -->", text, re.DOTALL)
        rows = [line for line in shown.splitlines() if line.startswith("|")]
        assert rows
        assert set(rows) <= set(written.splitlines()), page


def test_the_table_of_human_labels_is_the_measured_one() -> None:
    names = {"drpl": "DRPL", "cleanlab": "cleanlab", "cross_entropy": "small loss"}
    wanted = [
        f"| {names[row.detector]} | `{row.score}` | {row.auroc:.3f} | {row.precision:.3f} | "
        f"{row.images:,} |"
        for row in pd.read_csv(RESULTS / "humans" / "table.csv").itertuples()
    ]
    text = (ROOT / "docs" / "humans.md").read_text()
    (shown,) = re.findall(r"<!-- humans -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert shown.splitlines()[2:] == wanted


def test_the_table_of_probes_is_the_measured_one() -> None:
    wanted = []
    table = pd.read_csv(RESULTS / "probes" / "probes.csv", keep_default_na=False)
    for (method, noise), rows in table.groupby(["method", "noise"], sort=False):
        case = "clean labels" if noise == "none" else noise
        name = f"`{method}`, {case}" if noise else "untrained"
        wanted.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in rows.accuracy)} |")
    text = (ROOT / "docs" / "memorisation.md").read_text()
    (shown,) = re.findall(r"<!-- probes -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert shown.splitlines()[2:] == wanted


def cleaning_table(found: dict[str, Any]) -> str:
    """What docs/cleaning.md says of the measured figures."""
    one, every = found["folder"], found["vectors"]
    rate = one["noise rate"]
    rows = {
        "samples, of these wrong": f"{one['samples']:,}, {one['wrong'] / one['samples']:.1%}",
        "noise rate, estimated": f"{rate['value']:.1%} ({rate['low']:.1%} to {rate['high']:.1%})",
        "AUROC of `p_noisy`": f"{one['auroc']:.4f}",
        "precision and recall of `issues.csv`": f"{one['precision']:.3f}, {one['recall']:.3f}",
        "suggested label right, of the mislabelled": f"{one['suggested']:.3f}",
        "AUROC of `strangeness`, none of the classes against mislabelled": f"{one['verdict']:.3f}",
        "seconds": str(one["seconds"]),
    }
    lines = ["| the tutorial's folder, default budget | |", "| --- | ---: |"]
    lines += [f"| {name} | {value} |" for name, value in rows.items()]
    right = found["intervals that contain the truth"]
    widest = max(case["high"] - case["low"] for case in every)
    least = min(case["precision"] for case in every)
    lines += [
        "",
        f"Of {len(every)} sets of vectors with {min(c['wrong'] for c in every):.0%} to "
        f"{max(c['wrong'] for c in every):.0%} wrong labels, half of them with unequal classes, "
        f"the interval contained the truth {right} times; it was at most {widest:.1%} wide, and "
        f"of the listed labels at least {least:.1%} were wrong.",
    ]
    return "\n".join(lines) + "\n"


def test_the_figures_of_cleaning_are_the_measured_ones() -> None:
    found = json.loads((RESULTS / "cleaning.json").read_text())
    text = (ROOT / "docs" / "cleaning.md").read_text()
    (shown,) = re.findall(r"<!-- cleaning -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert shown.split() == cleaning_table(found).split()
    one = found["folder"]
    kinds, tutorial = one["verdicts"], " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    assert (
        f"{kinds['mislabelled']} look like another class, {kinds['outside']} look like" in tutorial
    )
    assert f"{one['issues']} are suspicious enough" in tutorial


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
