"""What came out, in sentences: written for a reader who sees nothing else of the page."""

import shlex
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

from markupsafe import Markup

from drpl.registry import is_oracle
from drpl.report.load import find_tracked, group_by_method, read_document, read_samples
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


def summarize_run(numbers: Numbers, run: Result) -> list[Markup]:
    """What came out of a run, in sentences."""
    s = run.summary
    what = Markup("{} on {}").format(tag_name(s["method"]), tag_name(s["dataset"]))
    if s["noise"]["spec"]:
        what += Markup(" with the noise {}").format(tag_name(s["noise"]["spec"]))
    if not run.finished:
        stage = run.history[-1]["stage"] if run.history else "none"
        return [
            Markup(
                "{} is still training: stage {}, {} epochs so far. What follows is what it "
                "has found by now."
            ).format(what, tag_name(stage), numbers.read(run, "epochs"))
        ]
    share = numbers.compute(run, "flagged.mean()", s["flagged"] / s["samples"], 1, percent=True)
    flagged = Markup("{} calls {} of {} labels wrong ({} %).").format(
        what, numbers.read(run, "flagged"), numbers.read(run, "samples"), share
    )
    return [flagged, _summarize_detection(numbers, run), _summarize_accuracy(numbers, run)]


def _summarize_detection(numbers: Numbers, run: Result) -> Markup:
    if run.detection is None:
        return Markup(
            "Nobody knows which labels are really wrong, so there is no AUROC, no precision and no "
            "recall: whether it is right, only looking at the images can tell."
        )
    if run.detection["recall"] is None:
        return Markup("In truth all labels are right: whatever it flags is a false alarm.")
    samples = read_samples(run)
    wrong = samples["wrong"].mean() if samples else None
    return Markup(
        "In truth {} % are wrong. It finds {} % of these; of what it flags, {} % is really wrong. "
        "The AUROC is {}: so often a noisy label looks more suspicious than a clean one."
    ).format(
        numbers.compute(run, "wrong.mean()", wrong, 1, percent=True),
        numbers.read(run, "detection.recall", 1, percent=True),
        numbers.read(run, "detection.precision", 1, percent=True),
        numbers.read(run, "detection.auroc", 3),
    )


def _summarize_accuracy(numbers: Numbers, run: Result) -> Markup:
    if run.accuracy["last"] is None:
        return Markup("There is no test set, so nobody knows how accurate the model is.")
    return Markup(
        "The model names {} % of the test images rightly after the last epoch ({} % after the best "
        "one)."
    ).format(numbers.read(run, "accuracy.last", 2), numbers.read(run, "accuracy.best", 2))


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
