"""Who finds wrong labels best, on every set of labels that was measured.

    python -m benchmarks.leaderboard        reads benchmarks/results, trains nothing
    python benchmarks/pages.py              puts the tables into docs/leaderboard.md

A new row is a row more in one of the files that are read here, see docs/leaderboard.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.lookup import GRID, HUMAN, KINDS, MINI, ROOT, TITLES
from benchmarks.missing import add_missing, count_unjudged, show_missing
from drpl.files import write_atomic
from drpl.noise.spec import parse_spec
from drpl.registry import is_oracle
from drpl.report.table import DASH, to_csv

RESULTS = "benchmarks/results/leaderboard"
PEOPLE = "benchmarks/results/humans/table.csv"
LABELS = {"worse_label": "worse", "random_label1": "random1", "aggre_label": "aggre"}
PLAIN, NEGATIVE = "cross_entropy", "nlnl"
OWN = "own judgement"  # the mean loss of two networks of DRPL, or of all three
FIGURES = ("auroc", "average_precision", "precision", "seconds")
COLUMNS = ["board", "labels", "detector", *FIGURES, "seeds", "missing"]
HEADS = {"average_precision": "AP", "precision": "precision", "seconds": "seconds"}
DIGITS = {"average_precision": 3, "precision": 3, "seconds": 0}


def main() -> None:
    table = make_table(ROOT)
    write_atomic(ROOT / RESULTS / "table.csv", to_csv(table))
    write_atomic(ROOT / RESULTS / "table.md", draw_boards(table))
    print(f"wrote {RESULTS}: {len(table)} rows")


def make_table(root: Path) -> pd.DataFrame:
    """A row for each board, set of labels and detector: means over seeds and levels."""
    rows = [*rank_people(read(root, PEOPLE))]
    for folder in (GRID, MINI):
        cells, found = (read(root, f"{folder}/{name}.csv") for name in ("table", "detectors"))
        if len(cells) and len(found):
            rows += rank_runs(folder, cells, found)
    return pd.DataFrame(rows, columns=COLUMNS)


def read(root: Path, file: str) -> pd.DataFrame:
    """A result file; empty if it is not there."""
    return pd.read_csv(root / file) if (root / file).exists() else pd.DataFrame()


def rank_people(found: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """CIFAR-10N: detectors of any kind, on the same features or on the images themselves."""
    if found.empty:
        return
    found = found.rename(columns={"average precision": "average_precision"})
    found = found.sort_values("samples", ascending=False, kind="stable")
    by = ["samples", "labels", "detector"]
    for (samples, labels, detector), mine in found.groupby(by, sort=False):
        yield {
            "board": f"CIFAR-10N, {samples:,} images",
            "labels": LABELS.get(labels, labels),
            "detector": detector,
            **{name: mine[name].mean() for name in FIGURES},
            "seeds": mine["seed"].nunique(),
            "missing": 0,
        }


def rank_runs(folder: str, cells: pd.DataFrame, found: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Runs of methods, judged by detectors on what their networks said."""
    own = cells.dropna(subset=["auroc"]).assign(stage=OWN, detector="small_loss")
    own = own[own["method"] == "drpl"].drop(columns=["tpr", "fpr", "seconds", "seed"])
    every = pd.concat([choose_rows(found), own])
    every["labels"] = [name_labels(*pair) for pair in zip(every.dataset, every.noise, strict=True)]
    planned = add_missing(cells)
    boards = dict(iter(every.groupby(["dataset", "labels"])))
    by = ["dataset", "labels", "method", "stage", "detector"]
    for (dataset, labels, method, stage, detector), mine in every.groupby(by, sort=False):
        runs = cells[(cells["dataset"] == dataset) & (cells["method"] == method)]
        runs = runs[runs["noise"].isin(mine["noise"])]
        figures = {name: mine[name].mean() for name in FIGURES if name in mine}
        yield {
            "board": TITLES.get((folder, dataset), dataset),
            "labels": labels,
            "detector": f"`{detector}` after `{method}`, {stage}",
            **figures,
            "seconds": runs["seconds"].median(),  # machines have busy hours
            "seeds": runs["seed"].nunique(),
            "missing": count_unjudged(mine, boards[dataset, labels], planned),
        }


def choose_rows(found: pd.DataFrame) -> pd.DataFrame:
    """Every detector after cross-entropy, `negative` after NL, and the loss of other methods.

    Methods that are given the truth are left out, and so are warm-ups and halves of a pair.
    """
    hidden = found["method"].map(is_oracle).astype(bool)
    hidden |= found["stage"].str.contains(r"-(?:warmup|\d)$")
    wanted = found["method"].map({PLAIN: "", NEGATIVE: "negative"}).fillna("small_loss")
    plain = (found["method"] == PLAIN) & (found["detector"] != "negative")
    chosen: pd.DataFrame = found[~hidden & (plain | (found["detector"] == wanted))]
    return chosen.dropna(subset=["auroc"])


def name_labels(dataset: str, noise: str) -> str:
    """The set of labels that a noise belongs to: all levels of a kind together."""
    return "human" if dataset.startswith(HUMAN) else KINDS[parse_spec(noise)[0][0]]


def draw_boards(table: pd.DataFrame) -> str:
    """A table in Markdown for each board, the best mean AUROC first."""
    return "\n".join(
        f"**{board}**\n\n{draw_board(mine)}" for board, mine in table.groupby("board", sort=False)
    )


def draw_board(mine: pd.DataFrame) -> str:
    """A row for each detector: AUROC on each set of labels, the other figures on average.

    A detector that lacks runs, or a whole set of labels, comes after those that are ranked.
    """
    order = [*LABELS.values(), *KINDS.values(), "human"]
    labels = sorted(dict.fromkeys(mine["labels"]), key=order.index)
    wide, lost = (
        mine.pivot_table(values=name, index="detector", columns="labels", sort=False)
        for name in ("auroc", "missing")
    )
    others = mine.groupby("detector")[[*HEADS, "seeds"]].mean()
    best = wide.where(lost == 0).max()
    lines = [["detector", *(f"AUROC, {name}" for name in labels), *HEADS.values(), "seeds"]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    whole = (lost == 0).all(axis=1)  # not so where it was not tried at all
    ranked = wide.mean(axis=1).sort_values(ascending=False, kind="stable").index
    for detector in [*(d for d in ranked if whole[d]), *(d for d in ranked if not whole[d])]:
        cells = [show_area(wide, lost, best, detector, name) for name in labels]
        cells += [show(others.loc[detector, name], DIGITS[name]) for name in HEADS]
        name = detector if whole[detector] else f"{detector} (not ranked)"
        lines.append([name, *cells, f"{others.loc[detector, 'seeds']:.0f}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def show_area(
    wide: pd.DataFrame, lost: pd.DataFrame, best: pd.Series, detector: str, name: str
) -> str:
    """An AUROC; the highest of its column bold, one that lacks runs marked."""
    value, count = wide.loc[detector, name], lost.loc[detector, name]
    if count > 0:
        return show(value, 3) + show_missing(int(count))
    return f"**{show(value, 3)}**" if value == best[name] else show(value, 3)


def show(value: float, digits: int) -> str:
    """A figure, or a dash where it was not measured."""
    return f"{value:.{digits}f}" if pd.notna(value) else DASH


if __name__ == "__main__":
    main()
