"""Put what was measured into README and docs.

    python benchmarks/pages.py

In each page, what stands between `<!-- NAME -->` and `<!-- end -->` is made here from the files
that the other benchmarks wrote to `results/`. A picture of theirs is copied to `docs/images`.
"""

import json
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PICTURES = {
    "review/found-aggre_label-seed-1.png": "found.png",
    "clipart/clipart.png": "clipart.png",
    "which/which.png": "which.png",
}
COPIES = ("recompressed", "resized", "cropped", "mirrored")
LABELLED = {  # sets of labels that folders of photos are made with
    "clean_label": "CIFAR-10's own",
    "aggre_label": "majority of three people",
    "worse_label": "worst of three people",
}
MADE = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    for source, name in PICTURES.items():
        shutil.copyfile(RESULTS / source, ROOT / "docs" / "images" / name)
    for page in PAGES:
        text = page.read_text("utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, "utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


def filled(text: str) -> str:
    """A page with its tables as they were measured."""
    return MADE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def measured(name: str) -> Any:
    """The content of a JSON file of results."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def table(head: str, rows: list[list[str]], names: int = 1) -> str:
    """A table in Markdown; all but the first columns are numbers."""
    lines = [head.split(", "), ["---"] * names + ["---:"] * (head.count(", ") + 1 - names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def demo() -> str:
    """The digits with 60 % noise: means over seeds."""
    rows = []
    for method in ("cross_entropy", "mixup", "drpl"):
        runs = [run for run in measured("demo.json") if run["method"] == method]
        cells = [f"{mean(run['accuracy'][key] for run in runs):.2f}" for key in ("last", "best")]
        for key in ("auroc", "tpr", "fpr"):
            cells.append(f"{mean(run['detection'][key] for run in runs):.4f}")
        rows.append([f"`{method}`", *cells, f"{mean(run['seconds'] for run in runs):.0f}"])
    return table("method, accuracy last (%), best (%), AUROC, TPR, FPR, seconds", rows)


def mini() -> str:
    """Every table of the mini benchmark."""
    return (RESULTS / "mini" / "summary.md").read_text("utf-8")


def accuracy() -> str:
    """The first of them."""
    return mini().split("\n\n")[0] + "\n"


def losses() -> str:
    """The last of them: how well the losses of DRPL's stages separate."""
    return mini().split("\n\n")[-1]


def humans() -> str:
    """CIFAR-10N's human labels: means over seeds."""
    found = pd.read_csv(RESULTS / "humans" / "table.csv")
    rows = []
    for (detector, samples), mine in found.groupby(["detector", "samples"]):
        cells = []
        for labels in ("worse_label", "random_label1", "aggre_label"):
            some = mine[mine["labels"] == labels]
            cells += [f"{some[name].mean():.3f}" for name in ("auroc", "precision")]
        some = mine[mine["labels"] == "worse_label"]
        cells.append(f"{some['average precision'].mean():.3f}")
        accuracy = some["accuracy"].mean()
        cells.append(f"{accuracy:.1f}" if accuracy == accuracy else "")
        cells += [f"{mine['seconds'].mean():.0f}", str(mine["seed"].nunique())]
        rows.append([str(detector), f"{samples:,}", *cells])
    rows.sort(key=lambda row: (row[1], row[2]), reverse=True)
    head = (
        "detector, images, worse: AUROC, precision, random1: AUROC, precision, aggre: AUROC, "
        "precision, worse: average precision, accuracy (%), seconds, seeds"
    )
    return table(head, rows)


def people() -> str:
    """The rows on features of that table, in short."""
    found = pd.read_csv(RESULTS / "humans" / "table.csv")
    found = found[found["samples"] == found["samples"].max()]
    means = found.groupby(["detector", "labels"])["auroc"].mean().unstack()
    order = ["aggre_label", "random_label1", "worse_label"]
    means = means.sort_values("worse_label", ascending=False)
    rows = [
        [str(detector), *(f"{value:.3f}" for value in means.loc[detector, order])]
        for detector in means.index
    ]
    return table("AUROC, 9 % wrong, 17 % wrong, 41 % wrong", rows)


def sizes() -> str:
    """`drpl clean` and two others by number of samples: mean AUROC."""
    found = pd.read_csv(RESULTS / "sizes" / "sizes.csv")
    means = found.groupby(["set", "samples", "detector"])["auroc"].mean().unstack()
    names = ["drpl clean", "k-NN vote", "cleanlab, logistic regression"]
    rows = [
        [name, f"{samples:,}", *(f"{means.loc[(name, samples), way]:.3f}" for way in names)]
        for name, samples in means.index
    ]
    return table("labels, samples, `drpl clean`, k-NN vote, cleanlab (regression)", rows)


def rates() -> str:
    """Estimated noise rates beside the true ones."""
    found = pd.read_csv(RESULTS / "rates" / "table.csv")
    rows, hits = [], (found["low"] <= found["wrong"]) & (found["wrong"] <= found["high"])
    for name, mine in found.groupby("labels", sort=False):
        ends = [f"{mine[end].mean():.1%}" for end in ("wrong", "value", "low", "high")]
        rows.append([str(name), *ends, f"{hits[mine.index].sum()} of {len(mine)}"])
    words = f"In {hits.sum()} of {len(hits)} cases the interval contained the truth.\n\n"
    return words + table("labels, wrong, estimated, at least, at most, contained", rows)


def photos() -> str:
    """`drpl clean` on folders of photos, held against the truth: means over seeds."""
    found, rows = pd.read_csv(RESULTS / "photos" / "table.csv"), []
    for name, words in LABELLED.items():
        mine = found[found["labels"] == name]
        one = mine.mean(numeric_only=True)
        ends = [f"{one[f'rate {end}']:.1%}" for end in ("value", "low", "high")]
        cells = [f"{one['wrong']:.1%}", "{} ({} to {})".format(*ends), f"{one['listed']:,.0f}"]
        known = one["wrong"] > 0
        shares = ("precision", "recall", "auroc", "precision at the true number")
        cells += [f"{one[share]:.3f}" if known else "" for share in shares]
        cells += [f"{one[name]:.3f}" for name in ("ece", "ece after 40")]
        cells += [f"{one['test accuracy']:.1f}", f"{one['seconds']:.0f}", str(len(mine))]
        rows.append([words, *cells])
    head = (
        "labels, wrong, estimated, listed, precision, recall, AUROC, precision at the true number, "
        "calibration error, after 40 decisions, accuracy (%), seconds, seeds"
    )
    return table(head, rows)


def planted() -> str:
    """Recall as it is said and as it is."""
    found = pd.read_csv(RESULTS / "planted" / "table.csv")
    near = (found["planted recall"] - found["true recall"]).abs() <= 0.1
    rows = [
        [
            str(row.data),
            f"{row.samples:,}",
            f"{row.wrong:.1%}",
            f"{found.loc[row.Index, 'planted recall']:.3f}",
            f"{found.loc[row.Index, 'true recall']:.3f}",
        ]
        for row in found.itertuples()
    ]
    words = f"In {near.sum()} of {len(near)} cases both are at most 0.1 apart.\n\n"
    return words + table("data, samples, flipped, planted recall, true recall", rows)


def several() -> str:
    """Planted entries of images with several labels each, means over seeds."""
    found = pd.read_csv(RESULTS / "several" / "table.csv")
    rows = []
    for (name, rate), mine in found.groupby(["set", "flipped"], sort=False):
        mean = mine.mean(numeric_only=True)
        known = [f"{mean[column]:.3f}" if rate else "" for column in AUROCS]
        counts = [f"{mean[column]:,.0f}" for column in ("wrong", "listed", "rightly")]
        cells = [f"{rate:.0%}", f"{mean['estimated']:.1%}", *counts, *known, str(len(mine))]
        rows.append([str(name), *cells])
    head = "set, flipped, estimated, wrong, listed, rightly, AUROC, of labels there, of labels not"
    return table(f"{head}, seeds", rows)


def looks() -> str:
    """A look at 40, repeated a hundred times, and the order of a review."""
    found, rows = measured("review/review.json")["cases"], []
    for name, words in LABELLED.items():
        case = found[f"{name}/seed-1"]
        for who in ("knows the truth", "errs in 5 %"):
            one = case[who]
            cells = [f"{one['mean width']:.1%}", str(one["contained"])]
            cells.append(str(one["contained and at most 0.12 wide"]))
            for order in ("fixed order", "by decisions"):
                cells.append(" / ".join(f"{count:,}" for count in one[order].values()))
            rows.append([words, who, *cells])
    head = (
        "labels, reviewer, mean width, contains the truth, and is at most 12 points wide, "
        "found in fixed order, sorted by decisions"
    )
    return table(head, rows, names=2)


def retrain() -> str:
    """What training again on decisions finds."""
    found, rows = measured("retrain.json"), []
    for name in ("aggre", "look-alike"):
        ways = ("fixed order", "by decisions", "trained again")
        for mark in found[name][ways[0]]:
            cells = [f"{found[name][way][mark]:,}" for way in ways]
            rows.append([name, f"{int(mark):,}", *cells])
    return table("labels, decisions, fixed order, sorted by decisions, trained again", rows)


def scratch() -> str:
    """CIFAR-10N's human labels, on pixels: means over seeds."""
    return average_seeds("humans/scratch.csv")


def scratch_gains() -> str:
    """What each change to DRPL is worth there, on labels to choose by."""
    return average_seeds("humans/scratch-gains.csv")


def average_seeds(name: str) -> str:
    """Each way to judge labels, with its mean over seeds; margins where all is averaged only."""
    if not (RESULTS / name).exists():
        return "Not measured yet.\n"
    found = pd.read_csv(RESULTS / name)
    shown = found[(found.score != "margin") | (found["mean over"] == "all")]
    rows = []
    for place, mine in shown.groupby(["method", "stage", "mean over", "score"], sort=False):
        method, stage, over, score = (str(part) for part in place)
        auroc = f"{mine.auroc.mean():.3f}" + (f" ± {mine.auroc.std():.3f}" if len(mine) > 1 else "")
        numbers = [f"{mine.precision.mean():.3f}", str(len(mine)), f"{mine.images.mean():,.0f}"]
        rows.append([f"`{method}`", stage, over, score, auroc, *numbers])
    head = "method, stage, mean over, score, AUROC, precision, seeds, images shown"
    return table(head, rows, names=4)


def scratch_earlier() -> str:
    """The same labels, with rates that fall in steps and labels judged by one view."""
    names = {"drpl": "DRPL", "cleanlab": "cleanlab", "cross_entropy": "small loss"}
    rows = [
        [
            names[row.detector],
            f"`{row.score}`",
            f"{row.auroc:.3f}",
            f"{row.precision:.3f}",
            f"{row.images:,}",
        ]
        for row in pd.read_csv(RESULTS / "humans" / "scratch-earlier.csv").itertuples()
    ]
    return table("detector, score, AUROC, precision, images shown", rows, names=2)


def probes() -> str:
    """Linear probes by depth."""
    rows = []
    found = pd.read_csv(RESULTS / "probes" / "probes.csv", keep_default_na=False)
    for (method, noise), mine in found.groupby(["method", "noise"], sort=False):
        case = "clean labels" if noise == "none" else noise
        name = f"`{method}`, {case}" if noise else "untrained"
        rows.append([name, *(f"{value:.2f}" for value in mine.accuracy)])
    return table("accuracy (%) after block, 1, 2, 3, 4", rows)


def cleaning() -> str:
    """The tutorial's folder, and the intervals of the noise rate."""
    found = measured("cleaning.json")
    one, every = found["folder"], found["vectors"]
    rate = one["noise rate"]
    rows = {
        "samples, of these wrong": f"{one['samples']:,}, {one['wrong'] / one['samples']:.1%}",
        "noise rate, estimated": f"{rate['value']:.1%} ({rate['low']:.1%} to {rate['high']:.1%})",
        "AUROC of `p_noisy`": f"{one['auroc']:.4f}",
        "precision and recall of `issues.csv`": f"{one['precision']:.3f}, {one['recall']:.3f}",
        "suggested label right, of the mislabelled": f"{one['suggested']:.3f}",
        "AUROC of `outlier_score`, of no class against mislabelled": f"{one['verdict']:.3f}",
        "seconds": str(one["seconds"]),
    }
    least, most = (f"{end(case['wrong'] for case in every):.0%}" for end in (min, max))
    widest = max(case["high"] - case["low"] for case in every)
    words = (
        f"Of {len(every)} sets of vectors with {least} to {most} wrong labels, half of them with "
        "unequal classes, the interval contained the truth "
        f"{found['intervals that contain the truth']} times; it was at most {widest:.1%} wide, "
        f"and of the listed labels at least {min(case['precision'] for case in every):.1%} were "
        "wrong."
    )
    head = "the tutorial's folder with the default budget, measured"
    return table(head, [[*row] for row in rows.items()]) + f"\n{textwrap.fill(words, 100)}\n"


def encoder() -> str:
    """How fast `lite0` is on one core, decoding included."""
    found = measured("bench.json")
    speeds, ratios = found["encoder_images_per_second_and_core"], found["encoder_ratio"]
    rows = [[f"{size} x {size}", f"{speeds[size]:.0f}", f"{ratios[size]:.1f}"] for size in speeds]
    return table("`lite0` sees, images a second, times eager torch", rows)


def second_encoder() -> str:
    """One encoder or two, with and without mirror images."""
    means = pd.read_csv(RESULTS / "second-encoder.csv").groupby("noise", sort=False).mean()
    ways = [way for way in means if way != "seed"]
    rows = [[str(way), *(f"{value:.4f}" for value in means[way])] for way in ways]
    return table(", ".join(["features", *means.index]), rows)


def duplicates() -> str:
    """Copies that are found and pairs that are mistaken for copies, by data set."""
    rows = []
    for name, one in measured("duplicates.json")["sets"].items():
        kinds = [f"{one['by kind'][kind]:.3f}" for kind in COPIES]
        rows.append([name, f"{one['recall']:.3f}", *kinds, f"{one['false pairs']:.1%}"])
    return table(f"data set, recall, {', '.join(COPIES)}, false pairs", rows)


def outliers() -> str:
    """How well images of another data set are told from the rest."""
    found = measured("duplicates.json")["outliers"]
    rows = [[one["images"], one["strangers"], f"{one['auroc']:.3f}"] for one in found]
    return table("images, out-of-distribution images from, AUROC", rows, names=2)


def speed() -> str:
    """Time of the exact search, and of libraries for the approximate one."""
    found = measured("duplicates.json")
    one = found["speed"]
    words = (
        f"The exact search among {one['vectors']:,} vectors of {one['numbers']:,} numbers, plain "
        f"and mirrored, took {one['seconds of the search']:.0f} seconds "
        f"({one['seconds of processors']:.0f} of processor time) on a machine of two cores that "
        f"had other work too; {one['planted pairs found']:.1%} of {one['planted']:,} planted pairs "
        f"were found. The neighbours for outliers took {one['seconds of neighbours']:.0f} seconds."
    )
    rows = [
        [
            f"{name} ({lib['version']})",
            f"{lib['build']:.0f}",
            f"{lib['search']:.0f}",
            f"{lib['recall of 10 neighbours']:.3f}",
            f"{lib['planted pairs found']:.3f}",
        ]
        for name, lib in found["libraries"].items()
    ]
    head = "library, build (s), search (s), recall of 10 neighbours, planted pairs found"
    return f"{textwrap.fill(words, 100)}\n\n{table(head, rows)}"


def scale() -> str:
    """Processor time and peak memory by number of samples."""
    found = measured("scale.json")
    sizes = (10_000, 100_000, 1_000_000)
    rows = []
    for name, growth in found["growth"].items():
        mine = {row["samples"]: row for row in found["rows"] if row["name"] == name}
        cells = [f"{mine[n]['seconds']:.1f}" if n in mine else "" for n in sizes]
        cells += [f"{mine[n]['peak megabytes'] / 1000:.1f}" if n in mine else "" for n in sizes]
        whole = f", part of *{growth['part of']}*" if "part of" in growth else ""
        rows.append([name + whole, *cells, f"{growth['time a sample']:.2f}"])
    head = [f"{n:,}".replace(",", " ") for n in sizes]
    head = ["", *(f"{n}: s" for n in head), *(f"{n}: GB" for n in head), "time a sample (times)"]
    return table(", ".join(head), rows)


def saving() -> str:
    """What checkpoints take."""
    [one] = [row for row in measured("scale.json")["rows"] if "share" in row]
    words = (
        f"With {one['samples']:,} samples of {one['classes']:,} classes and a network of next to "
        f"no cost, {one['saves']} saves took {one['share']:.1%} of the time."
    )
    return f"{textwrap.fill(words, 100)}\n"


def stored(name: str) -> Callable[[], str]:
    """A table that its benchmark has written in Markdown, once it was run to its end."""
    path = RESULTS / name
    return lambda: path.read_text("utf-8") if path.exists() else "Not measured yet.\n"


AUROCS = ("auroc", "auroc of labels that are there", "auroc of labels that are not")
TABLES: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (
        *(demo, mini, accuracy, losses, humans, people, sizes, rates, probes, cleaning),
        *(scratch, scratch_gains, scratch_earlier),
        *(encoder, second_encoder, photos, planted, several, looks, retrain, scale, saving),
        *(duplicates, outliers, speed),
    )
}
PAPER = ("accuracy", "significance", "detection", "detectors", "cost")
TABLES |= {f"paper_{name}": stored(f"paper/{name}.md") for name in PAPER}
TABLES["ablations"] = stored("ablations/summary.md")
TABLES |= {f"claims_{name}": stored(f"claims/{name}.md") for name in ("summary", "sections")}
TABLES["leaderboard"] = stored("leaderboard/table.md")
TABLES["which_words"] = stored("which/words.md")
TABLES["which_leaders"] = stored("which/leaders.md")

if __name__ == "__main__":
    main()
