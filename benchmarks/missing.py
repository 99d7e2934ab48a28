"""Runs that a table should have and has not: they failed, or are still to be made.

The runs that are left of a method are often those that were easy for it, so their mean is not to be
compared with means over all. Such a method is shown, with how many are missing, and not ranked.
"""

from collections import Counter

import pandas as pd

RUN = ["dataset", "noise", "method", "seed"]


def add_missing(cells: pd.DataFrame) -> pd.DataFrame:
    """The runs of one benchmark, and a row without figures for each that is missing.

    `ran` tells them apart. On a data set every method should have every noise with its seeds.
    """
    if "ran" in cells or cells.empty:
        return cells
    there = cells.assign(ran=True)
    parts = []
    for dataset, mine in there.groupby("dataset", sort=False):
        seeds = plan_seeds(mine)
        every = [
            (dataset, noise, method, seed)
            for noise in dict.fromkeys(mine["noise"])
            for method in dict.fromkeys(mine["method"])
            for seed in seeds[method]
        ]
        known = set(map(tuple, mine[RUN].to_numpy()))
        parts.append(pd.DataFrame([run for run in every if run not in known], columns=RUN))
    lost = pd.concat(parts).assign(ran=False)
    return pd.concat([there, lost], ignore_index=True) if len(lost) else there


def plan_seeds(mine: pd.DataFrame) -> dict[str, list[int]]:
    """The seeds that each method of a data set was meant to have.

    Some are run with fewer on purpose, and then not alone. So seeds that several methods have are
    a plan, and a method's is the smallest that has all of its own.
    """
    own = {method: frozenset(runs["seed"]) for method, runs in mine.groupby("method", sort=False)}
    plans = sorted((seeds for seeds, n in Counter(own.values()).items() if n > 1), key=len)
    return {
        str(method): sorted(next((plan for plan in plans if plan >= seeds), seeds))
        for method, seeds in own.items()
    }


def count_missing(cells: pd.DataFrame, figure: str) -> dict[str, int]:
    """Methods that lack runs of a comparison, and how many; `cells` are from `add_missing`.

    Noises under which nobody has the figure do not count, nor do methods that never have it.
    """
    known = cells.groupby("noise")[figure].transform("count") > 0
    found = {}
    for method, mine in cells[known].groupby("method", sort=False):
        lacking = int(mine[figure].isna().sum())
        measured = lacking < len(mine) or not mine["ran"].all()
        if lacking and measured:
            found[str(method)] = lacking
    return found


def show_missing(count: int) -> str:
    """What stands behind a figure that is not ranked."""
    return f" ({count} missing)" if count else ""


def count_unjudged(found: pd.DataFrame, others: pd.DataFrame, cells: pd.DataFrame) -> int:
    """How many runs are missing behind the figures of a detector on one method's runs.

    `others` has the figures that it is compared with: whatever labels they are of it should have
    been tried on. `cells` are from `add_missing`.
    """
    level = ["dataset", "noise"]
    judged = set(map(tuple, found[level].to_numpy()))
    mine = cells[cells["method"] == found["method"].iloc[0]]
    count = 0
    for dataset, noise in others[level].drop_duplicates().itertuples(index=False):
        runs = mine[(mine["dataset"] == dataset) & (mine["noise"] == noise)]
        lost = int((~runs["ran"].astype(bool)).sum())
        count += lost if (dataset, noise) in judged else max(len(runs), 1)
    return count
