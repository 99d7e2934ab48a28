"""The page of claims: every claim is on it, every number is in its file, and the rules can fail."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
import pytest
from benchmarks.claims import verdict
from benchmarks.claims.listing import GROUPS, Claim
from benchmarks.lookup import Results

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "claims.md"
KEPT = json.loads((ROOT / "benchmarks" / "results" / "claims.json").read_text("utf-8"))["claims"]
CLAIMS = [claim for group in GROUPS.values() for claim in group]
TESTED = [claim for claim in CLAIMS if not claim.why_not]
NUMBER = re.compile(r"\d+\.\d+")

Tables = dict[str, pd.DataFrame]


def test_the_kept_verdicts_follow_from_the_kept_results() -> None:
    """After new results: make claims."""
    found = verdict.find_all(Results())
    pairs = [pair for members in found.values() for pair in members]
    assert [verdict.describe(claim, cases) for claim, cases in pairs] == KEPT
    folder = ROOT / "benchmarks" / "results" / "claims"
    assert verdict.draw_summary(found) == (folder / "summary.md").read_text("utf-8")
    assert verdict.draw_sections(found) == (folder / "sections.md").read_text("utf-8")


def test_every_claim_has_a_row_and_a_section() -> None:
    text = PAGE.read_text("utf-8")
    titles = [claim.title for claim in CLAIMS]
    assert len(set(titles)) == len(titles)
    assert re.findall(r"^### \d+\. (.*)$", text, re.MULTILINE) == titles
    rows = re.findall(
        r"^\| \[\d+\. (.*?)\]\(#(.*?)\) \|.*\| (\S+ [a-z ]+?)(?:, .*)? \|$", text, re.M
    )
    assert [title for title, _, _ in rows] == titles
    for (_, anchor, shown), kept in zip(rows, KEPT, strict=True):
        assert shown == f"{verdict.MARKS[kept['verdict']]} {kept['verdict']}"
        assert re.fullmatch(r"[\w-]+", anchor)
        assert "--" not in anchor  # the two renderers would differ


def list_rows(title: str) -> Iterator[dict[str, str]]:
    """The rows of a claim's table on the page, by the heads of their columns."""
    section = PAGE.read_text("utf-8").partition(f". {title}\n\n**")[2].partition("\n### ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    for cells in lines[2:]:
        yield {"case": cells[0]} | dict(zip(lines[0][1:], cells[1:], strict=True))


def recompute(figure: dict[str, Any]) -> float:
    """The mean of a figure's rows, by other means than the page was made by."""
    with (ROOT / figure["file"]).open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))

    def meets(row: dict[str, str]) -> bool:
        for column, wanted in figure["where"].items():
            allowed = [str(one) for one in (wanted if isinstance(wanted, list) else [wanted])]
            if row[column] not in allowed and row[column].removesuffix(".0") not in allowed:
                return False
        return True

    values = [row[figure["column"]] for row in rows if meets(row)]
    known = [float(value) for value in values if value]
    assert len(known) == figure["rows"]
    return mean(known)


@pytest.mark.parametrize("place", range(len(CLAIMS)), ids=[claim.title for claim in CLAIMS])
def test_every_number_is_in_its_file(place: int) -> None:
    claim, kept = CLAIMS[place], KEPT[place]
    rows = list(list_rows(claim.title))
    assert [row["case"] for row in rows] == [case["case"] for case in kept["cases"]]
    for row, case in zip(rows, kept["cases"], strict=True):
        shown = {head: NUMBER.findall(cell) for head, cell in row.items() if head != "case"}
        assert {head for head, numbers in shown.items() if numbers} == case["figures"].keys()
        for head, figure in case["figures"].items():
            [number] = shown[head]
            assert len(number.partition(".")[2]) == claim.digits
            near = 0.5 * 10**-claim.digits + 1e-9  # a half may be rounded either way
            assert abs(float(number) - recompute(figure)) <= near, (row, head)
        if claim.rule:
            assert row["holds"] == verdict.HOLDS[case["holds"]]


def test_every_verdict_rests_on_a_file_of_results() -> None:
    for kept in KEPT:
        ours = [case for case in kept["cases"] if not case["published"]]
        measured = kept["verdict"] in (verdict.CONFIRMED, verdict.IN_PART, verdict.NOT)
        assert measured == any(case["holds"] is not None for case in ours)
        for case in ours:
            for figure in case["figures"].values():
                assert figure["file"].startswith("benchmarks/results/")


# A made world in which every claim holds, and what breaks each.

NOISES = {
    "none": "",
    "nonuniform:0.5": "NU-ID",
    "uniform:0.6": "U-ID",
    "ood-nonuniform:0.5": "NU-OOD",
    "ood:0.6": "U-OOD",
}
GRID, MEMORISED = "benchmarks/results/paper", "benchmarks/results/memorised"
TABLE, STAGES, DETECTORS = (f"{GRID}/{name}.csv" for name in ("table", "stages", "detectors"))
FITTED, LOSSES, PROBED, MAPS = (
    f"{MEMORISED}/{name}.csv" for name in ("fitted", "losses", "probes", "maps")
)
DEEP = "benchmarks/results/probes/probes.csv"
PEOPLE, SCRATCH = (f"benchmarks/results/humans/{name}.csv" for name in ("table", "scratch"))


def make_run(dataset: str, noise: str, method: str) -> dict[str, Any]:
    """A run whose figures bear every claim out."""
    best = {"oracle_ssl": 95, "drpl": 92, "drpl (literal)": 90}.get(method, 80.0)
    if method == "mixup":
        best = {"": 94, "NU-OOD": 85}.get(NOISES[noise], 80)
    auroc = {"drpl": 0.97, "drpl (literal)": 0.95}.get(method, 0.8)
    if method == "cross_entropy" and "nonuniform" in noise:
        auroc = 0.7
    drpl = method.startswith("drpl")
    return {
        "dataset": dataset,
        "noise": noise,
        "method": method,
        "seed": 1,
        "auroc": auroc,
        "accuracy_best": best,
        "accuracy_last": best - (0.5 if drpl else 0),
        "tpr": 0.9 if drpl else 0.5,
        "fpr": 0.3 if NOISES[noise] == "NU-OOD" else 0.1,
    }


def make_world() -> Tables:
    """All result files."""
    methods = ("cross_entropy", "mixup", "joint", "nlnl", "oracle_ssl", "oracle_forward")
    cells = [(data, noise) for data in ("cifar10", "imagenet32-mini") for noise in NOISES]
    every = [make_run(*cell, method) for cell in cells for method in (*methods, "drpl")]
    every += [make_run(*cell, "drpl (literal)") for cell in cells]
    stages = [
        {"dataset": data, "noise": noise, "method": method, "stage": stage, "auroc": auroc}
        for data, noise in cells
        for method, stage, auroc in (
            ("cross_entropy", "train", 0.7),
            *((name, "relabel", 0.9) for name in ("drpl", "drpl (literal)")),
            *((name, "detect", 0.95) for name in ("drpl", "drpl (literal)")),
            ("drpl", "pooled", 0.96),
        )
    ]
    agreed: dict[str, Any] = {
        "method": "cross_entropy",
        "stage": "train",
        "detector": "two_stage",
    }
    agreed |= {"auroc": 0.8, "tpr": 0.3, "fpr": 0.1}
    probes = [
        {"noise": noise, "method": method, "block": block, "accuracy": accuracy}
        for noise, method, accuracies in (
            ("none", "mixup", (60, 70, 80, 90)),
            ("uniform:0.4", "mixup", (60, 70, 79, 80)),
            ("uniform:0.4", "drpl", (60, 70, 80, 88)),
            ("uniform:0.8", "mixup", (50, 60, 70, 75)),
            ("uniform:0.8", "drpl", (60, 70, 80, 85)),
        )
        for block, accuracy in enumerate(accuracies, 1)
    ]
    fitted = {"noise": "uniform:0.6", "clean fitted": 0.9, "noisy fitted": 0.5}
    stage = {"noise": "uniform:0.6", "method": "drpl", "stage": "relabel"}
    taught = [
        {**stage, "epoch": epoch, "accuracy by targets": 99.0, "accuracy by labels": labels}
        for epoch, labels in ((1, 100.0), (2, 50.0))
    ]
    maps: dict[str, Any] = {"noise": "nonuniform:0.4", "predicted": True, "wider": 1.0}
    maps |= {"area of given": 0.4, "area of true": 0.2}
    people = [
        {"labels": "worse_label", "samples": 9, "detector": name, "auroc": auroc}
        for name, auroc in (("DRPL", 0.9), ("AUM", 0.8))
    ]
    scratch = [
        {
            "method": f"{name}:fast",
            "stage": stage,
            "mean over": over,
            "score": score,
            "auroc": auroc,
        }
        for name, stage, auroc in (("drpl", "both", 0.9), ("cross_entropy", "train", 0.8))
        for over, score in (("the run itself", "loss"), ("all", "margin"))
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        TABLE: every,
        STAGES: stages,
        PROBED: probes[:12],
        DEEP: probes,
        LOSSES: taught,
        DETECTORS: [{"dataset": d, "noise": n, **agreed} for d, n in cells],
        FITTED: [fitted],
        MAPS: [maps],
        PEOPLE: people,
        SCRATCH: scratch,
    }
    return {file: pd.DataFrame(found) for file, found in rows.items()}


def put(file: str, column: str, value: float, **where: Any) -> Callable[[Tables], None]:
    """Another figure in some rows of a file."""

    def change(tables: Tables) -> None:
        chosen = pd.Series(True, index=tables[file].index)
        for name, wanted in where.items():
            chosen &= tables[file][name] == wanted
        assert chosen.any()
        tables[file].loc[chosen, column] = value

    return change


BROKEN = {
    "Clean labels are fitted first": put(FITTED, "noisy fitted", 0.95),
    "Cross-entropy's loss separates less under non-uniform noise": put(
        TABLE, "auroc", 0.8, method="cross_entropy"
    ),
    "The relabelling loss separates under non-uniform noise": put(
        STAGES, "auroc", 0.92, stage="train"
    ),
    "Stage 2 sharpens the loss": put(STAGES, "auroc", 0.89, stage="detect"),
    "Stage 1 learns its pseudo-labels": put(LOSSES, "accuracy by labels", 99.5),
    "DRPL finds more than C, M, TS and NL": put(DETECTORS, "auroc", 0.96),
    "DRPL keeps more clean labels than TS and NL": put(TABLE, "tpr", 0.9, method="nlnl"),
    "NU-OOD noise is the hardest to detect": put(TABLE, "fpr", 0.4, noise="uniform:0.6"),
    "NU-OOD noise is the least harmful": put(TABLE, "accuracy_last", 86, noise="ood:0.6"),
    "DRPL is first on CIFAR-10": put(TABLE, "accuracy_last", 90, method="joint"),
    "DRPL is first under four noises": put(TABLE, "accuracy_last", 90, method="joint"),
    "There is little gap between best and last": put(
        TABLE, "accuracy_last", 88, method="drpl (literal)"
    ),
    "Without noise DRPL costs accuracy": put(TABLE, "accuracy_best", 90, method="mixup"),
    "The oracle of SSL beats that of forward correction": put(
        TABLE, "accuracy_best", 95, method="oracle_forward"
    ),
    "Only the last block degrades": put(DEEP, "accuracy", 30, noise="uniform:0.4", block=1),
    "Under the most uniform noise all blocks degrade": put(
        DEEP, "accuracy", 89, noise="uniform:0.8", block=4
    ),
    "After the last block DRPL's features beat mixup's": put(DEEP, "accuracy", 70, method="drpl"),
    "The map of a memorised label covers more of the image": put(MAPS, "wider", 0.0),
    "DRPL is first on labels that people got wrong": put(PEOPLE, "auroc", 0.9),
    "The mean loss of both stages ranks as well as the better stage": put(
        STAGES, "auroc", 0.94, stage="pooled"
    ),
    "Our additions find more wrong labels": put(TABLE, "auroc", 0.9, method="drpl"),
    "Our additions make models more accurate": put(TABLE, "accuracy_last", 85, method="drpl"),
    "From scratch DRPL finds as much as the small loss": put(
        SCRATCH, "auroc", 0.7, method="drpl:fast"
    ),
}


def decide(claim: Claim, tables: Tables, folder: Path) -> str:
    """What comes out with these result files."""
    for file, table in tables.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / file, index=False)
    return verdict.decide(claim, list(claim.find(Results(folder))))


@pytest.mark.parametrize("claim", TESTED, ids=[claim.title for claim in TESTED])
def test_a_claim_is_confirmed_or_not_by_what_was_measured(claim: Claim, tmp_path: Path) -> None:
    assert verdict.decide(claim, list(claim.find(Results(tmp_path)))) == verdict.UNMEASURED
    tables = make_world()
    assert decide(claim, tables, tmp_path / "good") == verdict.CONFIRMED
    BROKEN[claim.title](tables)
    if claim.title.startswith(("Only the last", "After the last")):
        del tables[PROBED]  # only one of the two files was changed
    assert decide(claim, tables, tmp_path / "bad") == verdict.NOT


def test_half_of_the_cases_confirm_in_part(tmp_path: Path) -> None:
    [claim] = [claim for claim in CLAIMS if claim.title == "Stage 2 sharpens the loss"]
    tables = make_world()
    put(STAGES, "auroc", 0.89, stage="detect", dataset="cifar10")(tables)
    assert decide(claim, tables, tmp_path) == verdict.IN_PART
    shown = verdict.show_verdict(claim, list(claim.find(Results(tmp_path))))
    assert shown == "◐ in part, 4 of 8"


def lose(method: str, noise: str) -> Callable[[Tables], None]:
    """Two seeds of every method, but of one method only the first under a noise."""

    def change(tables: Tables) -> None:
        runs = pd.concat([tables[TABLE], tables[TABLE].assign(seed=2)], ignore_index=True)
        lost = (runs["method"] == method) & (runs["noise"] == noise) & (runs["seed"] == 2)
        tables[TABLE] = runs[~lost]

    return change


def test_a_case_that_lacks_runs_bears_nothing_out(tmp_path: Path) -> None:
    [claim] = [claim for claim in CLAIMS if claim.title == "DRPL is first on CIFAR-10"]
    tables = make_world()
    lose("drpl (literal)", "uniform:0.6")(tables)
    assert decide(claim, tables, tmp_path) == verdict.IN_PART
    cases = list(claim.find(Results(tmp_path)))
    assert [case.holds for case in cases] == [True, None, True, True]
    assert verdict.show_verdict(claim, cases) == "◐ in part, 3 of 4"
    assert "| 89.5 (1 missing) | 80.0 (`cross_entropy`) | – |" in verdict.draw_cases(claim, cases)


@pytest.mark.parametrize("accuracy", [60, 99])
def test_a_case_whose_rival_lacks_runs_bears_nothing_out(tmp_path: Path, accuracy: float) -> None:
    [claim] = [claim for claim in CLAIMS if claim.title == "DRPL is first on CIFAR-10"]
    tables = make_world()
    lose("joint", "uniform:0.6")(tables)
    put(TABLE, "accuracy_last", accuracy, method="joint", noise="uniform:0.6")(tables)
    assert decide(claim, tables, tmp_path) == verdict.IN_PART
    cases = list(claim.find(Results(tmp_path)))
    assert [case.holds for case in cases] == [True, None, True, True]
    assert "| 89.5 | 80.0 (`cross_entropy`, 1 missing) | – |" in verdict.draw_cases(claim, cases)


def test_what_the_paper_prints_does_not_count(tmp_path: Path) -> None:
    published = Path("src/drpl/report/published.csv")
    (tmp_path / published).parent.mkdir(parents=True)
    (tmp_path / published).write_bytes((ROOT / published).read_bytes())
    for claim in CLAIMS:
        cases = list(claim.find(Results(tmp_path)))
        assert all(case.published for case in cases)
        assert verdict.decide(claim, cases) in (verdict.UNMEASURED, verdict.UNTESTABLE)
        if claim.rule:  # its own figures bear out what it says
            assert all(case.holds for case in cases), claim.title
