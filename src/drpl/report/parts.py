"""The parts of a page: tables and galleries, made of numbers that can be looked up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from drpl.report import gallery
from drpl.report.numbers import Number, Numbers, name, share
from drpl.report.paper import Figure, printed
from drpl.report.runs import Arrays, by_method, samples, title
from drpl.runs.folder import Result

SUSPICIOUS = 20  # rows of the list of labels


@dataclass(frozen=True)
class Table:
    """Heads and rows; cells are text, names or numbers."""

    heads: list[str]
    rows: list[list[Any]]
    about: str = ""


@dataclass(frozen=True)
class Tile:
    """An image of a gallery and what is to be said about it."""

    image: str | None  # an address that holds it
    what: Markup
    number: Number
    clean: bool = False


@dataclass(frozen=True)
class Gallery:
    """Rows of images."""

    title: str
    about: str
    rows: list[tuple[str, list[Tile]]] = field(default_factory=list)


def results(numbers: Numbers, runs: Sequence[Result]) -> Table:
    """A row for each noise and method: means over the seeds that are finished."""
    heads = ["noise", "method", "seeds", "accuracy, last (%)", "best (%)", "flagged"]
    heads += ["AUROC", "TPR", "FPR", "precision", "recall", "seconds"]
    paper = any(told(run, "last") or told(run, "best") for run in runs)
    heads += ["paper, last (%)", "paper, best (%)"] * paper
    rows = []
    noises: dict[Any, list[Result]] = {}
    for run in runs:
        noises.setdefault((run.summary["dataset"], run.summary["noise"]["spec"]), []).append(run)
    for (_, spec), mine in noises.items():
        for method, seeds in by_method(mine).items():
            row: list[Any] = [name(spec or "none added"), name(method), numbers.count(seeds)]
            row += [numbers.spread(seeds, f"accuracy.{key}", 2) for key in ("last", "best")]
            row.append(numbers.spread(seeds, "flagged", 0))
            for key in ("auroc", "tpr", "fpr", "precision", "recall"):
                row.append(numbers.spread(seeds, f"detection.{key}", 3))
            row.append(numbers.spread(seeds, "seconds", 0))
            row += [published(numbers, seeds, key) for key in ("last", "best")] * paper
            rows.append(row)
    about = (
        "Mean ± standard deviation over seeds. Last is the accuracy after the last epoch, what "
        "one gets; best is that of the best epoch on the test set and flatters. TPR and FPR count "
        "clean labels as positives, as the paper does: the share of clean labels that are kept, "
        "and of noisy ones that are kept by mistake. Precision and recall are those of the flagged "
        "labels. A dash means that it is not known."
    )
    if paper:
        about += " The paper prints single runs at full scale, for data of this name."
    return Table(heads, rows, about)


def told(run: Result, key: str) -> Figure | None:
    """What the paper prints for such a run."""
    s = run.summary
    figures = printed(s["dataset"], s["noise"]["spec"], s["method"])
    return next((one for one in figures if getattr(one, key) is not None), None)


def published(numbers: Numbers, seeds: Sequence[Result], key: str) -> Number:
    """The paper's figure beside ours."""
    figure = told(seeds[0], key)
    value = None if figure is None else getattr(figure, key)
    return Number(value, (numbers.place(seeds[0]),), "published.csv", key, 2)


def progress(numbers: Numbers, runs: Sequence[Result]) -> Table:
    """A row for each run that is still training."""
    heads = ["run", "stage", "epochs so far", "accuracy now (%)", "best (%)", "splits", "seconds"]
    rows = []
    for run in runs:
        stage = run.history[-1]["stage"] if run.history else "not begun"
        splits = Number(
            len(run.summary["stages"]),
            (numbers.place(run),),
            "splits",
            "json files",
            0,
            "number of files",
        )
        rows.append(
            [
                name(title(run)),
                name(stage),
                numbers.known(run, "epochs"),
                numbers.known(run, "accuracy.last", 2),
                numbers.known(run, "accuracy.best", 2),
                splits,
                numbers.known(run, "seconds"),
            ]
        )
    return Table(heads, rows, "Best is that of the stage that trains now.")


def every_run(numbers: Numbers, runs: Sequence[Result]) -> Table:
    """A row for each run by itself."""
    heads = ["folder", "method", "noise", "seed", "state", "accuracy, last (%)", "AUROC", "flagged"]
    heads += ["epochs", "images shown", "seconds"]
    rows = [
        [
            name(str(run.folder)),
            name(run.summary["method"]),
            name(run.summary["noise"]["spec"] or "none added"),
            numbers.known(run, "seed"),
            "finished" if run.finished else "training",
            numbers.known(run, "accuracy.last", 2),
            numbers.known(run, "detection.auroc", 4),
            numbers.known(run, "flagged"),
            numbers.known(run, "epochs"),
            numbers.known(run, "images"),
            numbers.known(run, "seconds", 1),
        ]
        for run in runs
    ]
    return Table(heads, rows)


def splits(numbers: Numbers, run: Result) -> Table | None:
    """How each stage of a run divided the samples."""
    stages = run.summary["stages"]
    if not stages:
        return None
    heads = ["after stage", "threshold", "labels kept", "labels lost"]
    heads += ["AUROC", "TPR", "FPR", "precision", "recall"]
    rows = []
    for k, stage in enumerate(stages):
        row = [name(stage["stage"]), numbers.known(run, f"stages.{k}.threshold", 3)]
        row += [numbers.known(run, f"stages.{k}.{key}") for key in ("labelled", "unlabelled")]
        for key in ("auroc", "tpr", "fpr", "precision", "recall"):
            row.append(numbers.known(run, f"stages.{k}.detection.{key}", 3))
        rows.append(row)
    return Table(heads, rows)


def health(numbers: Numbers, run: Result) -> Table | None:
    """Every class: how many of its labels look wrong, and what they should be."""
    table = samples(run)
    if table is None:
        return None
    heads = ["class", "images", "flagged", "flagged (%)", "most often seen instead", "so often"]
    truth = "wrong" in table
    heads += ["really wrong (%)", "of these found (%)", "flagged rightly (%)"] * truth
    given, flagged = table["given"], table["flagged"].astype(bool)
    rows = []
    for c, label in enumerate(run.summary["classes"]):
        mine = given == c
        row: list[Any] = [
            name(label),
            numbers.among(run, f"(given == {c}).sum()", mine.sum()),
            numbers.among(run, f"(flagged & (given == {c})).sum()", (flagged & mine).sum()),
            percent(numbers, run, f"flagged[given == {c}].mean()", share(flagged, mine)),
            *instead(numbers, run, table, c),
        ]
        if truth:
            bad = table["wrong"].astype(bool)
            here = f"(given == {c})"
            row += [
                percent(numbers, run, f"wrong[given == {c}].mean()", share(bad, mine)),
                percent(
                    numbers, run, f"flagged[wrong & {here}].mean()", share(flagged, bad & mine)
                ),
                percent(
                    numbers, run, f"wrong[flagged & {here}].mean()", share(bad, flagged & mine)
                ),
            ]
        rows.append(row)
    return Table(heads, rows, "By the given label. Sort by a column to find the worst classes.")


def percent(numbers: Numbers, run: Result, expression: str, value: float | None) -> Number:
    """A share, as percent."""
    return numbers.among(run, expression, value, 1, percent=True)


def instead(numbers: Numbers, run: Result, table: Arrays, c: int) -> list[Any]:
    """Which other class the model sees most among the flagged images of a class, and how often."""
    moved = (table["given"] == c) & table["flagged"].astype(bool) & (table["suggested"] != c)
    if not moved.any():
        return ["–", "–"]
    counts = np.bincount(table["suggested"][moved], minlength=len(run.summary["classes"]))
    most = int(counts.argmax())
    expression = f"((given == {c}) & flagged & (suggested == {most})).sum()"
    return [name(run.summary["classes"][most]), numbers.among(run, expression, counts[most])]


def suspicious(numbers: Numbers, run: Result) -> Table | None:
    """The labels that are most probably wrong."""
    if samples(run) is None:
        return None
    heads = ["image", "given label", "suggested label", "confidence", "loss", "p(noisy)"]
    table = samples(run) or {}
    rows = []
    for row in run.suspicious(SUSPICIOUS).itertuples():
        i = int(row.id)
        cells = [
            numbers.among(run, f"{key}[{i}]", table[key][i], 3)
            for key in ("confidence", "loss", "p_noisy")
        ]
        where = row.path or f"image {i}"
        rows.append([name(where), name(row.given_label), name(row.suggested_label), *cells])
    return Table(heads, rows, "The whole list is samples.csv in the run's folder.")


def relabelled(numbers: Numbers, run: Result) -> Table | None:
    """What became of clean and noisy labels, where the truth is known."""
    table = samples(run)
    if table is None or "wrong" not in table:
        return None
    given, seen, true = table["given"], table["suggested"], table["true"]
    inside = table["in_distribution"].astype(bool)
    bad = table["wrong"].astype(bool)
    lines = [
        (
            "clean, and the model agrees with the label",
            "~wrong & (suggested == given)",
            ~bad & (seen == given),
        ),
        (
            "clean, but the model sees another class",
            "~wrong & (suggested != given)",
            ~bad & (seen != given),
        ),
        (
            "noisy, and the model sees the true class",
            "wrong & in_distribution & (suggested == true)",
            bad & inside & (seen == true),
        ),
        (
            "noisy, and the model believes the wrong label",
            "wrong & in_distribution & (suggested == given)",
            bad & inside & (seen == given),
        ),
        (
            "noisy, and the model sees a third class",
            "wrong & in_distribution & (suggested != given) & (suggested != true)",
            bad & inside & (seen != given) & (seen != true),
        ),
        ("shows none of the classes", "~in_distribution", ~inside),
    ]
    rows = [
        [
            text,
            numbers.among(run, f"({expression}).sum()", mask.sum()),
            numbers.among(run, f"({expression}).mean()", mask.mean(), 1, percent=True),
        ]
        for text, expression, mask in lines
    ]
    return Table(["what an image is", "images", "share (%)"], rows)


def galleries(numbers: Numbers, run: Result, root: Path | None) -> list[Gallery] | str:
    """The images worth looking at, or a sentence that says why there are none."""
    chosen, pixels = gallery.choice_of(run), gallery.Pixels(run, root)
    if chosen is None:
        return "The galleries come when the run is finished."
    if pixels.why_not:
        return pixels.why_not
    table, names = samples(run) or {}, run.summary["classes"]

    def tile(number: int, key: str, *, clean: bool = False) -> Tile:
        given, seen = names[table["given"][number]], names[table["suggested"][number]]
        what = Markup("{} ← {}").format(name(given), name(seen)) if given != seen else name(given)
        value = numbers.among(run, f"{key}[{number}]", table[key][number], 2)
        return Tile(pixels.address(number), what, value, clean)

    def row(ids: Sequence[int], key: str) -> list[tuple[str, list[Tile]]]:
        return [("", [tile(number, key) for number in ids])] if ids else []

    by_class = []
    for c, clean, noisy in chosen.classes:
        first = [] if clean is None else [tile(clean, "p_noisy", clean=True)]
        by_class.append((names[c], [*first, *(tile(number, "p_noisy") for number in noisy)]))
    found = [
        Gallery(
            "Detected noisy images by class",
            "First, framed, the image that fits its label best; then those whose label is most "
            "probably wrong. Under each: given label ← what the model sees, probability of noise.",
            by_class,
        ),
        Gallery(
            "Most memorised",
            "Called noisy, and yet the final model predicts the given label; surest first. "
            "The number is its confidence.",
            row(chosen.memorised, "confidence"),
        ),
        Gallery(
            "Most disputed",
            "The stages of the run disagree most on these, or with one stage its probability of "
            "noise is nearest to one half. The number is the final probability of noise.",
            row(chosen.disputed, "p_noisy"),
        ),
        Gallery(
            "Labels most confidently wrong",
            "The model is surest that the image shows another class. The number is its confidence.",
            row(chosen.opposed, "confidence"),
        ),
    ]
    return [one for one in found if one.rows]
