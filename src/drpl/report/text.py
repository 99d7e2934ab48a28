"""What came out, in sentences: written for a reader who sees nothing else of the page."""

import shlex
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

from markupsafe import Markup

from drpl.report.numbers import Numbers, code, name
from drpl.report.runs import by_method, document, samples, tracked
from drpl.runs.folder import Result

ORACLE = "oracle_"  # methods whose name begins so are told the truth


def told_run(numbers: Numbers, run: Result) -> list[Markup]:
    """What came out of a run, in sentences."""
    s = run.summary
    what = Markup("{} on {}").format(name(s["method"]), name(s["dataset"]))
    if s["noise"]["spec"]:
        what += Markup(" with the noise {}").format(name(s["noise"]["spec"]))
    if not run.finished:
        stage = run.history[-1]["stage"] if run.history else "none"
        return [
            Markup(
                "{} is still training: stage {}, {} epochs so far. What follows is what it "
                "has found by now."
            ).format(what, name(stage), numbers.known(run, "epochs"))
        ]
    flagged = numbers.among(run, "flagged.mean()", s["flagged"] / s["samples"], 1, percent=True)
    said = [
        Markup("{} calls {} of {} labels wrong ({} %).").format(
            what, numbers.known(run, "flagged"), numbers.known(run, "samples"), flagged
        )
    ]
    if run.detection is None:
        said.append(
            Markup(
                "Nobody knows which labels are really wrong, so there is no AUROC, no precision "
                "and no recall: whether it is right, only looking at the images can tell."
            )
        )
    elif run.detection["recall"] is not None:
        table = samples(run) or {}
        wrong = numbers.among(
            run, "wrong.mean()", table["wrong"].mean() if table else None, 1, percent=True
        )
        said.append(
            Markup(
                "In truth {} % are wrong. It finds {} % of these; of what it flags, {} % is "
                "really wrong. The AUROC is {}: so often a noisy label looks more suspicious "
                "than a clean one."
            ).format(
                wrong,
                numbers.known(run, "detection.recall", 1, percent=True),
                numbers.known(run, "detection.precision", 1, percent=True),
                numbers.known(run, "detection.auroc", 3),
            )
        )
    else:
        said.append(Markup("In truth all labels are right: whatever it flags is a false alarm."))
    if run.accuracy["last"] is None:
        said.append(Markup("There is no test set, so nobody knows how accurate the model is."))
    else:
        said.append(
            Markup(
                "The model names {} % of the test images rightly after the last epoch ({} % "
                "after the best one)."
            ).format(numbers.known(run, "accuracy.last", 2), numbers.known(run, "accuracy.best", 2))
        )
    return said


def told_case(numbers: Numbers, runs: Sequence[Result]) -> list[Markup]:
    """What a comparison shows, in sentences: who is ahead, and whether that means anything."""
    said = []
    done = [run for run in runs if run.finished]
    keys = (
        ("accuracy.last", "accuracy after the last epoch", 2, " %"),
        ("detection.auroc", "AUROC of detection", 3, ""),
    )
    for key, words, digits, unit in keys:
        group, part = key.split(".")
        values = {
            method: [v for run in seeds if (v := (run.summary[group] or {}).get(part)) is not None]
            for method, seeds in by_method(done).items()
            if not method.startswith(ORACLE)
        }
        order = sorted((m for m in values if values[m]), key=lambda m: -mean(values[m]))
        if not order:
            continue
        best = [
            Markup("{} ({}{})").format(
                name(m), numbers.spread(by_method(done)[m], key, digits), unit
            )
            for m in order[:3]
        ]
        said.append(Markup("Highest {}: {}.").format(words, Markup(", then ").join(best)))
        if len(order) > 1:
            ahead = mean(values[order[0]]) - mean(values[order[1]])
            wide = max(
                (stdev(v) for v in (values[m] for m in order[:2]) if len(v) > 1), default=None
            )
            if wide is None:
                said.append(Markup("With one seed each, small differences may be chance."))
            elif ahead < wide:
                said.append(
                    Markup("The first two differ by less than seeds do: the order may be chance.")
                )
    if any(run.summary["method"].startswith(ORACLE) for run in done):
        said.append(Markup("Oracles are told the truth and are left out of this ranking."))
    return said


def unknown(numbers: Numbers, runs: Sequence[Result], shown: Sequence[Result]) -> list[Markup]:
    """What this page cannot say, and what would let it."""
    lines = []
    checks: tuple[tuple[Callable[[Result], Any], str], ...] = (
        (
            lambda run: run.finished and run.detection is None,
            "the truth about the labels: no AUROC, TPR, FPR, precision or recall",
        ),
        (
            lambda run: run.finished and run.accuracy["last"] is None,
            "accuracy: there is no test set",
        ),
        (
            lambda run: not tracked(run),
            "losses over epochs: train with --track-every to observe them",
        ),
        (
            lambda run: run.finished and run.detection and not (run.folder / "scores.csv").exists(),
            "other detectors than the run's own: judge with drpl score RUN",
        ),
        (
            lambda run: not document(run, "provenance.json").get("command"),
            "the command it was made by: it was started from Python, or by a comparison",
        ),
        (lambda run: not run.finished, "how it ends: it is still training"),
    )
    for missing, what in checks:
        without = [run for run in runs if missing(run)]
        if without:
            whose = (
                "the run"
                if len(runs) == 1
                else "every run"
                if len(without) == len(runs)
                else Markup("{} of {} runs").format(numbers.count(without), numbers.count(runs))
            )
            lines.append(Markup("Of {}: {}.").format(whose, what))
    if len(shown) < len(runs):
        lines.append(
            Markup(
                "Details are shown of one run for each noise, the first seed of the method that "
                "detects best. For another one: {}."
            ).format(code("drpl report RUN"))
        )
    return lines


def command(run: Result) -> str:
    """What to type to repeat a run."""
    made = document(run, "provenance.json").get("command")
    if made:
        return str(made)
    about = document(run, "config.toml").get("run", {})
    words = ["drpl", "train", str(about.get("dataset")), "--method", str(about.get("method"))]
    if about.get("noise") not in (None, "none"):
        words += ["--noise", str(about["noise"])]
    for preset in filter(None, str(about.get("preset", "")).split(", ")):
        words += ["--preset", preset]
    return shlex.join([*words, "--seed", str(about.get("seed"))])
