"""What was found, in words."""

import shlex
from pathlib import Path
from typing import Any

PAIRS = 5  # confusions that are named
OFTEN = 0.02  # share of a class from which on a confusion is named
DISTRUSTED = 1.5  # times the mean share of doubted labels makes a class one to distrust
MEANING = {
    "mislabelled": "look like another class",
    "outside": "look like none of the classes",
    "ambiguous": "could be either",
}


def told(figures: dict[str, Any], folder: Path) -> str:
    """The summary of a cleaned data set, as Markdown."""
    return "\n\n".join(["# What was found", *paragraphs(figures), *next_steps(folder)]) + "\n"


def paragraphs(figures: dict[str, Any]) -> list[str]:
    """How much is wrong, what kind of wrong it is, and where."""
    rate, samples = figures["noise rate"], figures["samples"]
    text = [
        f"About **{rate['value']:.1%}** of the {samples:,} labels are wrong (between "
        f"{rate['low']:.1%} and {rate['high']:.1%}). **{figures['issues']:,}** are suspicious "
        "enough to be listed: every network that was trained speaks against them."
    ]
    kinds = [f"{n:,} {MEANING[name]}" for name, n in figures["verdicts"].items() if n]
    if kinds:
        text.append("Of these, " + listed(kinds) + ".")
    often = [pair for pair in figures["pairs"] if pair["share"] >= OFTEN][:PAIRS]
    if often:
        words = [f"{p['true']} as {p['given']} ({p['share']:.0%})" for p in often]
        text.append("Mistaken most often, as shares of the true class: " + "; ".join(words) + ".")
    mean = figures["issues"] / samples
    bad = [c for c in figures["classes"] if mean and c["share"] > max(DISTRUSTED * mean, OFTEN)]
    if bad:
        worst = sorted(bad, key=lambda c: -c["share"])[:PAIRS]
        words = [f"{c['name']} ({c['issues']:,} of {c['samples']:,} doubted)" for c in worst]
        text.append("Classes to distrust: " + "; ".join(words) + ".")
    else:
        text.append("No class is much worse than the others.")
    if figures["repeats"] == 1:
        text.append("The interval knows of one training only; `--repeats 3` adds other seeds.")
    return [*text, *(f"Note: {note}." for note in figures["notes"][:PAIRS])]


def next_steps(folder: Path) -> list[str]:
    """What a person does now."""
    name = shlex.quote(str(folder))
    return [
        "\n".join(
            [
                f"- the list: `{folder / 'issues.csv'}`, every sample: `{folder / 'samples.csv'}`",
                f"- the report: `{folder / 'report.html'}`",
                f"- look and decide: `drpl review {name}`",
                f"- write the corrected data set: `drpl apply {name}`",
                f"- use the model: `drpl predict {name} IMAGES`",
            ]
        )
    ]


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
