"""Sentences of a page that depend on several runs, and the command that repeats a run."""

import shlex
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

from markupsafe import Markup

from drpl.registry import is_oracle
from drpl.report.load import find_tracked, group_by_method, read_document
from drpl.report.numbers import Numbers, look_up, tag_name
from drpl.runs.folder import Result

RANKED = (  # figures that methods are ranked by: key, name, digits, unit
    ("accuracy.last", "accuracy after the last epoch", 2, " %"),
    ("detection.auroc", "AUROC of detection", 3, ""),
)
MISSING: dict[str, Callable[[Result], Any]] = {  # what a page cannot say, and of which runs
    "the truth about the labels: no AUROC, TPR, FPR, precision or recall": lambda run: (
        run.finished and run.detection is None
    ),
    "accuracy: there is no test set": lambda run: run.finished and run.accuracy["last"] is None,
    "losses over epochs: train with --track-every to observe them": lambda run: (
        not find_tracked(run)
    ),
    "other detectors than the run's own: judge with drpl score RUN": lambda run: (
        run.finished and run.detection and not (run.folder / "scores.csv").exists()
    ),
    "the command it was made by: it was started from Python, or by a comparison": lambda run: (
        not read_document(run, "provenance.json").get("command")
    ),
    "how it ends: it is still training": lambda run: not run.finished,
}


def summarize_case(numbers: Numbers, runs: Sequence[Result]) -> list[Markup]:
    """What a comparison shows, in sentences: who is ahead, and whether that means anything."""
    methods = group_by_method([run for run in runs if run.finished])
    able = {method: seeds for method, seeds in methods.items() if not is_oracle(method)}
    sentences = []
    for key, figure, digits, unit in RANKED:
        found = {m: [look_up(run.summary, key) for run in seeds] for m, seeds in able.items()}
        values = {m: [v for v in mine if v is not None] for m, mine in found.items()}
        order = sorted((m for m in values if values[m]), key=lambda m: -mean(values[m]))
        if not order:
            continue
        best = [
            Markup("{} ({}{})").format(tag_name(m), numbers.summarize(able[m], key, digits), unit)
            for m in order[:3]
        ]
        sentences.append(Markup("Highest {}: {}.").format(figure, Markup(", then ").join(best)))
        if len(order) > 1:
            first, second = (values[m] for m in order[:2])
            deviations = [stdev(mine) for mine in (first, second) if len(mine) > 1]
            if not deviations:
                sentences.append(Markup("With one seed each, small differences may be chance."))
            elif mean(first) - mean(second) < max(deviations):
                sentences.append(
                    Markup("The first two differ by less than seeds do: the order may be chance.")
                )
    if len(able) < len(methods):
        sentences.append(Markup("Oracles know the truth and are left out of this ranking."))
    return sentences


def list_unknown(numbers: Numbers, runs: Sequence[Result], shown: Sequence[Result]) -> list[Markup]:
    """What this page cannot say, and what would let it."""
    lines = []
    for what, is_missing in MISSING.items():
        without = [run for run in runs if is_missing(run)]
        if without:
            whose: Markup | str = "the run" if len(runs) == 1 else "every run"
            if len(without) < len(runs):
                whose = Markup("{} of {} runs").format(numbers.count(without), numbers.count(runs))
            lines.append(Markup("Of {}: {}.").format(whose, what))
    if len(shown) < len(runs):
        lines.append(
            Markup(
                "Details are shown of one run for each noise, the first seed of the method that "
                "detects best. For another one: <code>drpl report RUN</code>."
            )
        )
    return lines


def format_command(run: Result) -> str:
    """What to type to repeat a run."""
    recorded = read_document(run, "provenance.json").get("command")
    if recorded:
        return str(recorded)
    about = read_document(run, "config.toml").get("run", {})
    command = ["drpl", "train", str(about.get("dataset")), "--method", str(about.get("method"))]
    if about.get("noise") not in (None, "none"):
        command += ["--noise", str(about["noise"])]
    for preset in filter(None, str(about.get("preset", "")).split(", ")):
        command += ["--preset", preset]
    return shlex.join([*command, "--seed", str(about.get("seed"))])
