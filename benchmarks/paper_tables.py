"""The tables of the paper's grid from the files of its results: python -m benchmarks.paper_tables

A row a method, a column a noise, as in the paper; its figures stand below ours where it has any. A
method that lacks runs of a comparison is shown there, and neither ranked nor tested.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.missing import add_missing, count_missing, count_unjudged, show_missing
from drpl.files import write_atomic
from drpl.noise.spec import parse_spec
from drpl.registry import is_oracle
from drpl.report.paper import find_published
from drpl.report.table import DASH, format_spread, to_csv

RESULTS = Path("benchmarks/results/paper")
TITLES = {
    "cifar10": "CIFAR-10",
    "cifar10-six": "CIFAR-10, six classes",
    "imagenet32-mini": "imagenet32-mini",
    "fashion-mnist": "Fashion-MNIST, six classes",
}
PUBLISHED = {"cifar10": "cifar10", "imagenet32-mini": "imagenet32"}  # the paper's nearest set
DOMAINS = {
    "in-distribution": ("nonuniform", "uniform"),
    "out-of-distribution": ("ood-nonuniform", "ood"),
}
SHORT = {"nonuniform": "NU", "uniform": "U", "ood-nonuniform": "NU", "ood": "U"}
# The levels of the paper's main table; on CIFAR-10 it has 40 % in place of 50 %.
MAIN = {"nonuniform": (0.3, 0.4, 0.5), "uniform": (0.4, 0.8)}
MAIN |= {"ood-nonuniform": MAIN["nonuniform"], "ood": MAIN["uniform"]}
TWO_STAGE = "two_stage"  # TS: a detector of the paper's table, on the runs of cross-entropy
WATCHED = ("cross_entropy", "nlnl", "drpl")  # whose evidence the table of detectors shows
OURS = "drpl"
LEVEL = 0.05  # p from which two methods count as level

Cell = Callable[[str, str], str]  # (method, noise) -> text


def main() -> None:
    write(RESULTS)


def write(folder: Path) -> None:
    """Write every table of a folder with `table.csv` and `detectors.csv`."""
    cells, detectors = (pd.read_csv(folder / f"{name}.csv") for name in ("table", "detectors"))
    found = find_firsts(cells)
    write_atomic(folder / "significance.csv", to_csv(found))
    for name, text in make_all(cells, detectors).items():
        write_atomic(folder / f"{name}.md", text)


def make_all(cells: pd.DataFrame, detectors: pd.DataFrame) -> dict[str, str]:
    """Every table by the name of its file."""
    return {
        "accuracy": tabulate_accuracy(cells),
        "detection": tabulate_detection(cells, detectors),
        "detectors": tabulate_detectors(cells, detectors),
        "significance": tabulate_firsts(find_firsts(cells)),
        "cost": tabulate_cost(cells),
    }


def is_main(spec: str) -> bool:
    """Whether a noise is one of the paper's main table."""
    [(kind, rate)] = parse_spec(spec)
    return rate in MAIN.get(kind, ())


def list_panels(cells: pd.DataFrame) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Data set, title, and the heads of columns by noise: in- and out-of-distribution apart."""
    for dataset, mine in cells.groupby("dataset", sort=False):
        for domain, kinds in DOMAINS.items():
            heads = {}
            for noise in dict.fromkeys(mine["noise"]):
                [(kind, rate)] = parse_spec(noise)
                if kind in kinds:
                    heads[noise] = f"{SHORT[kind]} {100 * (rate or 0):.0f}"
            if heads:
                title = f"**{TITLES.get(dataset, dataset)}, {domain} noise**"
                yield dataset, title, {"none": "0"} | heads


def draw_table(first: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [[first, *heads], ["---", *["---:"] * len(heads)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def make_panels(cells: pd.DataFrame, first: str, list_rows: Callable[..., list[list[str]]]) -> str:
    """A table for each data set and domain; `list_rows` takes its cells, data set and noises."""
    parts = []
    for dataset, title, heads in list_panels(cells):
        mine = cells[cells["dataset"] == dataset]
        table = draw_table(first, list(heads.values()), list_rows(mine, dataset, list(heads)))
        parts.append(f"{title}\n\n{table}")
    return "\n".join(parts)


def list_values(mine: pd.DataFrame, method: str, noise: str, value: str) -> list[float]:
    """A figure of every seed."""
    chosen = mine[(mine["method"] == method) & (mine["noise"] == noise)]
    return [float(one) for one in chosen[value].dropna()]


def fill(
    mine: pd.DataFrame, value: str, digits: int, noises: Sequence[str]
) -> dict[str, list[str]]:
    """For each method its mean ± deviation under each noise; the best of those to be used bold.

    With fewer seeds than were meant a mean is marked, and not the best.
    """
    methods = list(dict.fromkeys(mine["method"]))
    rows: dict[str, list[str]] = {method: [] for method in methods}
    for noise in noises:
        found = {method: list_values(mine, method, noise, value) for method in methods}
        missing = count_missing(mine[mine["noise"] == noise], value)
        able = {m: v for m, v in found.items() if m not in missing and not is_oracle(m)}
        usable = {m: mean(v) for m, v in able.items() if v}
        best = max(usable, key=usable.__getitem__, default=None)
        for method, values in found.items():
            text = format_spread(values, digits) + show_missing(missing.get(method, 0))
            rows[method].append(f"**{text}**" if method == best else text)
    return rows


def quote(dataset: str, method: str, noises: Sequence[str], *keys: str) -> list[str] | None:
    """What the paper prints for a method, its keys with a slash between; None: nothing at all."""
    row = []
    for noise in noises:
        known = find_published(PUBLISHED.get(dataset, ""), noise, method)
        found = [[getattr(one, key) for key in keys] for one in known]
        texts = [" / ".join(f"{v:.2f}" for v in values) for values in found if None not in values]
        row.append(texts[0] if texts else DASH)
    return row if set(row) != {DASH} else None


def tabulate_accuracy(cells: pd.DataFrame) -> str:
    """Last and best accuracy, the paper's in italics below ours."""

    def list_rows(mine: pd.DataFrame, dataset: str, noises: list[str]) -> list[list[str]]:
        rows = []
        ours = {key: fill(mine, f"accuracy_{key}", 1, noises) for key in ("last", "best")}
        for method in ours["last"]:
            for key, texts in ours.items():
                rows.append([f"`{method}`, {key}", *texts[method]])
                theirs = quote(dataset, method.partition(" (")[0], noises, key)
                if theirs and method == method.partition(" (")[0]:
                    rows.append([f"*paper*, {key}", *theirs])
        return rows

    return make_panels(add_missing(cells), "accuracy (%)", list_rows)


def tabulate_detection(cells: pd.DataFrame, detectors: pd.DataFrame) -> str:
    """AUROC; then TPR and FPR at what each method decides, the paper's below ours."""

    def list_areas(mine: pd.DataFrame, dataset: str, noises: list[str]) -> list[list[str]]:
        return [[f"`{m}`", *texts] for m, texts in fill(mine, "auroc", 3, noises).items()]

    def list_decisions(mine: pd.DataFrame, dataset: str, noises: list[str]) -> list[list[str]]:
        rows = []
        theirs = detectors[
            (detectors["dataset"] == dataset) & (detectors["method"] == "cross_entropy")
        ]
        two = theirs[theirs["detector"] == TWO_STAGE].assign(method=TWO_STAGE)
        both = pd.concat([mine, two])
        for method in dict.fromkeys(both["method"]):
            row = [f"`{method}`"]
            for noise in noises:
                shares = [list_values(both, method, noise, key) for key in ("tpr", "fpr")]
                text = " / ".join(f"{mean(one):.2f}" if one else DASH for one in shares)
                missing = count_missing(mine[mine["noise"] == noise], "tpr")
                row.append(text + show_missing(missing.get(method, 0)))
            rows.append(row)
            if paper := quote(dataset, method, noises, "tpr", "fpr"):
                rows.append(["*paper*", *paper])
        return rows

    cells = add_missing(cells)
    areas = make_panels(cells, "AUROC", list_areas)
    return f"{areas}\n{make_panels(cells, 'TPR / FPR', list_decisions)}"


def tabulate_detectors(cells: pd.DataFrame, detectors: pd.DataFrame) -> str:
    """Mean AUROC of each detector over data sets and levels, by whose evidence it judged."""
    cells = add_missing(cells)
    kinds = [parse_spec(noise)[0][0] for noise in detectors["noise"]]
    mine = detectors.assign(kind=kinds)[detectors["method"].isin(WATCHED)]
    mine = mine[~mine["stage"].str.endswith("-warmup")]
    every = dict(iter(mine.groupby("kind")))
    columns = [kind for kind in SHORT if kind in every]
    rows: dict[str, dict[str, tuple[float, int]]] = {}  # the mean, and how many are missing
    for (method, stage, detector), found in mine.groupby(
        ["method", "stage", "detector"], sort=False
    ):
        name = f"`{detector}` after `{method}`, {stage}"
        rows[name] = {
            kind: (float(part["auroc"].mean()), count_unjudged(part, every[kind], cells))
            for kind, part in found.groupby("kind")
        }
    whole = {
        kind: [row[kind][0] for row in rows.values() if kind in row and not row[kind][1]]
        for kind in columns
    }

    def show(kind: str, cell: tuple[float, int] | None) -> str:
        if cell is None:
            return DASH
        text, best = f"{cell[0]:.3f}", max(whole[kind], default=None)
        return f"**{text}**" if cell == (best, 0) else text + show_missing(cell[1])

    return draw_table(
        "AUROC",
        [f"`{kind}`" for kind in columns],
        [[name, *(show(kind, row.get(kind)) for kind in columns)] for name, row in rows.items()],
    )


def find_firsts(cells: pd.DataFrame) -> pd.DataFrame:
    """First and second of each kind of noise at the main levels, paired over levels and seeds.

    `p` is that of a paired t-test on the seeds' means over levels; `p_flips` that of flipping the
    signs of all paired differences at random. Methods that are given the truth are left out, and
    those that lack runs are only named.
    """
    cells = add_missing(cells)
    noisy = cells[[noise != "none" and is_main(noise) for noise in cells["noise"]]]
    usable = noisy[~noisy["method"].map(is_oracle).astype(bool)]
    usable = usable.assign(kind=[parse_spec(noise)[0][0] for noise in usable["noise"]])
    rows = []
    for (dataset, kind), mine in usable.groupby(["dataset", "kind"], sort=False):
        for value in ("accuracy_last", "auroc"):
            every = mine.groupby("method")[value].mean().sort_values(ascending=False)
            missing = count_missing(mine, value)
            means = every.drop(list(missing)).dropna()
            if len(means) < 2 or OURS not in every:
                continue  # not run yet
            first, second = means.index[:2]
            row = {"dataset": dataset, "kind": kind, "figure": value, "of": len(means)}
            row |= {"first": first, "mean": means[first]}
            row |= {"second": second, "second_mean": means[second]}
            row |= compare_pairs(mine, first, second, value)
            place = list(means.index).index(OURS) + 1 if OURS in means else np.nan
            row |= {"ours": every[OURS], "place": place}
            row |= {"missing": "; ".join(f"{name}: {count}" for name, count in missing.items())}
            rows.append(row)
    return pd.DataFrame(rows)


def compare_pairs(mine: pd.DataFrame, first: str, second: str, value: str) -> dict[str, float]:
    """How far a method leads another on the same labels, and by how much chance that would be."""
    wide = mine[mine["method"].isin([first, second])].pivot_table(
        values=value, index=["noise", "seed"], columns="method"
    )
    leads = (wide[first] - wide[second]).dropna()
    seeds = leads.groupby("seed").mean()
    found = {"lead": leads.mean(), "pairs": len(leads), "p": np.nan, "p_flips": np.nan}
    if len(seeds) > 1 and np.ptp(seeds):
        found["p"] = float(stats.ttest_1samp(seeds, 0.0).pvalue)
        flips = stats.permutation_test(
            (leads.to_numpy(),), np.mean, permutation_type="samples", rng=np.random.default_rng(1)
        )
        found["p_flips"] = float(flips.pvalue)
    return found


def tabulate_firsts(found: pd.DataFrame) -> str:
    """Who is first at the main levels, and whether that may be chance."""
    rows = []
    for row in found.to_dict("records"):
        digits = 2 if row["figure"] == "accuracy_last" else 4
        name = "accuracy (%)" if row["figure"] == "accuracy_last" else "AUROC"
        chance = [f"{row[key]:.3f}" if row[key] >= 0 else DASH for key in ("p", "p_flips")]
        level = " (level)" if row["p"] >= LEVEL else ""
        texts = [f"{row['mean']:.{digits}f}", f"`{row['second']}`{level}"]
        texts += [f"{row['second_mean']:.{digits}f}", f"{row['lead']:.{digits}f}", *chance]
        texts.append(f"{row['place']:.0f} of {row['of']}" if row["place"] > 0 else DASH)
        texts.append(row["missing"] or DASH)
        title = TITLES.get(row["dataset"], row["dataset"])
        rows.append([f"{title}, `{row['kind']}`: {name}", f"`{row['first']}`", *texts])
    heads = ["first", "mean", "second", "mean", "lead", "p", "p by flips", "place of `drpl`"]
    heads.append("not ranked: runs missing")
    return draw_table("main levels", heads, rows)


def tabulate_cost(cells: pd.DataFrame) -> str:
    """Seconds (the median: machines have busy hours), images and number of each method's runs."""
    rows = []
    for method, mine in cells.groupby("method", sort=False):
        seconds, images = mine["seconds"].median(), mine["images"].mean()
        rows.append([f"`{method}`", f"{seconds:.1f}", f"{images:,.0f}", str(len(mine))])
    return draw_table("method", ["seconds", "images shown", "runs"], rows)


if __name__ == "__main__":
    main()
