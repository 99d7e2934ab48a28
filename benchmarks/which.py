"""Which method for which noise: every method on every set of labels that was measured.

    python -m benchmarks.which              reads benchmarks/results, trains nothing
    python benchmarks/pages.py              puts the tables into docs/which.md

Levels of the paper's main table are averaged. A column is a data set under one kind of noise, so a
method that was not run there has an empty cell and is not compared; one that lacks some of its runs
is shown and not ranked.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from benchmarks.leaderboard import read
from benchmarks.lookup import GRID, HUMAN, KINDS, MINI, ROOT, TITLES
from benchmarks.missing import add_missing, count_missing
from benchmarks.paper_tables import LEVEL, compare_pairs, draw_table, is_main
from drpl.files import write_atomic
from drpl.noise.spec import parse_spec
from drpl.registry import is_oracle
from drpl.report.style import CLEAN, INK, NOISY, Picture, make_panels
from drpl.report.table import DASH, to_csv

RESULTS = "benchmarks/results/which"
FIGURES = {"accuracy_last": ("accuracy (%)", 1), "auroc": ("AUROC", 3)}
SEVERAL = 3  # methods that are named at the top of a column
OURS = "drpl"
# Far below the best, at half of the range, and the best; ink is readable on all of them.
SHADES = LinearSegmentedColormap.from_list("shades", [f"{NOISY}90", "#ffffff00", f"{CLEAN}90"])


def main() -> None:
    cells = read_cells(ROOT)
    write_atomic(ROOT / RESULTS / "table.csv", to_csv(make_table(cells)))
    for name, text in make_texts(cells).items():
        write_atomic(ROOT / RESULTS / f"{name}.md", text)
    picture = Picture("which", "Method by noise", draw_map(make_table(cells)))
    write_atomic(ROOT / RESULTS / "which.png", picture.render_png(dpi=110))
    print(f"wrote {RESULTS}")


def read_cells(root: Path) -> pd.DataFrame:
    """Every run that is compared, also those that are missing, with the column it belongs to."""
    parts = []
    for folder in (GRID, MINI):
        found = read(root, f"{folder}/table.csv")
        if found.empty:
            continue
        found = add_missing(found)
        pairs = zip(found["dataset"], found["noise"], strict=True)
        parts.append(found.assign(column=[name_column(folder, *pair) for pair in pairs]))
    return pd.concat(parts, ignore_index=True).dropna(subset=["column"])


def name_column(folder: str, dataset: str, noise: str) -> str | None:
    """A data set and a kind of noise; none if its level is not one of the main ones."""
    title = TITLES.get((folder, dataset), dataset)
    if noise == "none":
        return f"{title}: people" if dataset.startswith(HUMAN) else None
    if folder == GRID and not is_main(noise):  # the mini benchmark has one level of each
        return None
    return f"{title}: {KINDS[parse_spec(noise)[0][0]]}"


def make_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Means over levels and seeds, a row for each column and method."""
    by = ["column", "method"]
    means = cells.groupby(by, sort=False)[[*FIGURES]].mean().round(4)
    counts = cells[cells["ran"]].groupby(by, sort=False)["seed"].nunique().rename("seeds")
    missing = (~cells["ran"].astype(bool)).groupby([cells[name] for name in by], sort=False).sum()
    table = means.join(counts).join(missing.rename("missing")).reset_index()
    return table.fillna({"seeds": 0}).astype({"seeds": int})


def make_texts(cells: pd.DataFrame) -> dict[str, str]:
    """The pieces of the page: who leads each column, and DRPL's place."""
    return {"leaders": draw_leaders(cells), "words": read_out(cells)}


def rank(mine: pd.DataFrame, figure: str) -> pd.Series:
    """Means of the methods that are not given the truth and lack no run, the highest first."""
    usable = mine[~mine["method"].map(is_oracle).astype(bool)]
    usable = usable[~usable["method"].isin(count_missing(mine, figure))]
    means = usable.groupby("method")[figure].mean().dropna()
    return means.sort_values(ascending=False, kind="stable")


def list_unranked(mine: pd.DataFrame, figure: str) -> list[str]:
    """Methods that would be ranked, had they all their runs, each with how many are missing."""
    counts = count_missing(mine, figure)
    return [f"`{name}` ({count} missing)" for name, count in counts.items() if not is_oracle(name)]


def draw_leaders(cells: pd.DataFrame) -> str:
    """The first three of each column, and where DRPL stands."""
    rows = []
    for figure, (title, digits) in FIGURES.items():
        for column, mine in cells.groupby("column", sort=False):
            means = rank(mine, figure)
            if OURS not in set(mine["method"]) or means.empty:
                continue
            first = [f"`{name}` {means[name]:.{digits}f}" for name in means.index[:SEVERAL]]
            first += [DASH] * (SEVERAL - len(first))
            place = (
                f"{list(means.index).index(OURS) + 1} of {len(means)}" if OURS in means else DASH
            )
            unranked = ", ".join(list_unranked(mine, figure)) or DASH
            rows.append([f"{column}: {title}", *first, place, unranked])
    return draw_table("", ["first", "second", "third", "place of `drpl`", "not ranked"], rows)


def read_out(cells: pd.DataFrame) -> str:
    """One sentence a column: who is first in accuracy, and who may be as good."""
    lines = []
    for column, mine in cells.groupby("column", sort=False):
        means = rank(mine, "accuracy_last")
        if len(means) < SEVERAL:
            continue
        level = [name for name in means.index[1:] if is_level(mine, means.index[0], name)]
        text = f"- **{column}**: `{means.index[0]}` has the highest accuracy"
        if level:
            others = ", ".join(f"`{name}`" for name in level)
            text += f"; its lead is not significant over {others}"
        if OURS in means and OURS not in (means.index[0], *level):
            text += f"; `{OURS}` is {means.iloc[0] - means[OURS]:.2f} points behind"
            if mine[mine["method"] == means.index[0]]["seed"].nunique() == 1:
                text += ", but the first has one seed only"
        if unranked := list_unranked(mine, "accuracy_last"):
            text += f"; not ranked: {', '.join(unranked)}"
        lines.append(f"{text}.\n")
    return "".join(lines)


def is_level(mine: pd.DataFrame, first: str, other: str) -> bool:
    """Whether the lead over another may be chance; with a single seed nobody can say."""
    return bool(compare_pairs(mine, first, other, "accuracy_last")["p"] >= LEVEL)


def draw_map(table: pd.DataFrame) -> Figure:
    """Methods down, sets of labels across; the shade is the place between worst and best.

    A star marks a method that lacks runs of a column.
    """
    methods = order_methods(table)
    columns = list(dict.fromkeys(table["column"]))
    size = (0.42 * len(columns) + 1.6, 0.21 * len(methods) + 1.8)
    figure, panels = make_panels(len(FIGURES), "", "", "", columns=1, size=size)
    for axes, (name, (title, digits)) in zip(panels, FIGURES.items(), strict=True):
        matrix = spread(table, name).reindex(index=methods, columns=columns)
        missing = spread(table, "missing").reindex(index=methods, columns=columns)
        usable = matrix.where(missing == 0)[[not is_oracle(method) for method in methods]]
        low, high = usable.quantile(0.1), usable.max()
        shares = ((matrix - low) / (high - low).where(high > low, 1)).clip(0, 1)
        edges = [np.arange(n + 1) - 0.5 for n in (len(columns), len(methods))]
        axes.set_title(title)
        axes.grid(visible=False)
        axes.pcolormesh(*edges, shares.to_numpy(), cmap=SHADES, vmin=0, vmax=1, lw=0)
        axes.invert_yaxis()
        axes.set_xticks(range(len(columns)), columns, rotation=90)
        axes.set_yticks(range(len(methods)), methods)
        for (a, b), value in np.ndenumerate(matrix.to_numpy()):
            text = DASH if np.isnan(value) else f"{value:.{digits}f}".removeprefix("0")
            text += "*" if missing.iloc[a, b] > 0 else ""  # and is not ranked
            axes.text(b, a, text, ha="center", va="center", fontsize=6, color=INK)
    return figure


def spread(table: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Methods by columns."""
    return table.pivot_table(values=figure, index="method", columns="column", sort=False)


def order_methods(table: pd.DataFrame) -> list[str]:
    """By their mean place in accuracy, where they have one; those that are given the truth last."""
    wide = spread(table, "accuracy_last")
    wide = wide.where(spread(table, "missing").reindex_like(wide) == 0)
    usable = wide[[not is_oracle(name) for name in wide.index]]
    places = usable.rank(ascending=False).mean(axis=1).sort_values(kind="stable")
    return [*places.index, *(name for name in wide.index if is_oracle(name))]


if __name__ == "__main__":
    main()
