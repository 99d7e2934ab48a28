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


def test_the_figures_of_probabilities_are_the_measured_ones() -> None:
    found = json.loads((RESULTS / "probabilities.json").read_text())
    text = " ".join((ROOT / "docs" / "deploy.md").read_text().split())
    tenth, million = found["sizes"]
    took = f"take {million['drpl']['seconds_of_the_processor']} s of one processor and"
    assert f"{million['megabytes']} MB, {took} {million['drpl']['peak_megabytes']} MB" in text
    assert f"a tenth of them {tenth['drpl']['peak_megabytes']} MB" in text
    assert f"Imports alone take {tenth['drpl']['megabytes_before']} MB" in text
    assert all(all(size["compare"].values()) for size in found["sizes"])  # cleanlab's order


def test_the_comparison_with_cleanlab_is_the_measured_one() -> None:
    million = json.loads((RESULTS / "probabilities.json").read_text())["sizes"][1]
    text = " ".join((ROOT / "docs" / "compared.md").read_text().split())
    for name, row in (("drpl", "drpl"), ("cleanlab", "cleanlab, in parts")):
        of = million[name]
        cost = f"{of['seconds_of_the_processor']} | {of['peak_megabytes']}"
        assert f"| {row} | {cost} | {of['precision']:.3f} | {of['recall']:.3f} |" in text
    people = pages.MADE.search((ROOT / "docs" / "compared.md").read_text())
    assert people is not None
    rows = [line.split("|")[1:-1] for line in people[0].splitlines() if "0." in line]
    table = {name.strip(): [float(cell) for cell in cells] for name, *cells in rows}
    for name, ends in (
        ("same network", "0.008 to 0.023"),
        ("logistic regression", "0.061 to 0.101"),
    ):
        other = table[f"cleanlab, {name}"]
        behind = [ours - theirs for ours, theirs in zip(table["DRPL"], other, strict=True)]
        assert ends == f"{min(behind):.3f} to {max(behind):.3f}"
        assert ends in text


def test_the_figures_of_the_cookbook_are_the_measured_ones() -> None:
    text = " ".join((ROOT / "docs" / "cookbook.md").read_text().split())
    case = json.loads((RESULTS / "review" / "review.json").read_text())["cases"][
        "aggre_label/seed-1"
    ]
    wrong, found = round(case["wrong"] * case["samples"]), case["knows the truth"]
    fixed, sorted_anew = found["fixed order"]["1000"], found["by decisions"]["1000"]
    assert f"found {fixed} of the {wrong:,} wrong labels, and {sorted_anew} where" in text
    aurocs = [
        case["auroc"] for case in json.loads((RESULTS / "duplicates.json").read_text())["outliers"]
    ]
    assert f"was {min(aurocs):.2f} to {max(aurocs):.2f}, depending" in text
    speed = re.search(r"128 x 128 \| (\d+) \|", (ROOT / "docs" / "encoders.md").read_text())
    assert speed is not None
    assert f"{speed[1]} images a second" in text
    assert f"take {10_000_000 / int(speed[1]) / 3600:.0f} hours" in text


def test_the_figures_of_the_recorder_are_the_measured_ones() -> None:
    found = json.loads((RESULTS / "recorder.json").read_text())
    text = " ".join((ROOT / "docs" / "deploy.md").read_text().split())
    for case in (case for loops in found["overhead"].values() for case in loops.values()):
        assert all(f"{100 * case[name]:.1f} %" in text for name in ("overhead", "median"))
        assert f"{case['milliseconds_a_step']:.2g}" in text
    assert f"differ by {found['widest']:.4f} at most" in text
    false = found["flagged_of_right_labels"]
    assert f"{false['flagged']} of {false['samples']:,}" in text


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
