"""What was found, as a text for people."""

import shlex
from pathlib import Path
from typing import Any

PAIRS = 5  # confusions that are named
NOTES = 10  # that are shown; all of them are in clean.json
OFTEN = 0.02  # share of a class from which on a confusion is named
DISTRUSTED = 1.5  # times the mean share of doubted labels makes a class one to distrust
NONE = 0.005  # a lower end of the rate below which all labels may be right
WITHHELD = "It may be that none is, so nothing is listed."  # why is said before
UNKNOWN = "the predictions agree with them no more often than chance would, so nothing is listed"
MEANING = {
    "mislabelled": "look like another class",
    "outside": "look like none of the classes",
    "ambiguous": "could be either",
}


def summarize(figures: dict[str, Any], folder: Path) -> str:
    """The summary of a cleaned data set, as Markdown."""
    parts = ["# What was found", *describe_findings(figures), _list_next_steps(folder)]
    return "\n\n".join(parts) + "\n"


def describe_findings(figures: dict[str, Any]) -> list[str]:
    """What is doubtful, then how much is wrong, what kind of wrong, and where: paragraphs."""
    text = [f"Doubtful: {doubt}." for doubt in figures.get("doubts", ())]
    text.append(_describe_rate(figures))
    kinds = [f"{n:,} {agree(n, MEANING[name])}" for name, n in figures["verdicts"].items() if n]
    if kinds:
        *first, last = kinds
        text.append("Of these, " + (f"{', '.join(first)} and {last}" if first else last) + ".")
    if planted := figures.get("planted"):
        text.append(describe_planted(planted))
    often = [pair for pair in figures["pairs"] if pair["share"] >= OFTEN][:PAIRS]
    if often:
        listed = "; ".join(f"{p['true']} as {p['given']} ({p['share']:.0%})" for p in often)
        text.append(f"Mistaken most often, as shares of the true class: {listed}.")
    if not is_unsure(figures):  # else no class was compared with another
        text.append(_describe_classes(figures))
    text += _describe_features(figures.get("findings"))
    text += [f"Note: {note}." for note in figures["notes"][:NOTES]]
    if len(figures["notes"]) > NOTES:
        text.append(f"All {len(figures['notes']):,} notes are in `clean.json`.")
    return text


def is_unsure(figures: dict[str, Any]) -> bool:
    """Whether nothing is listed because the judgement is doubtful, not because labels are right."""
    return bool(figures["noise rate"]["high"] == 1 or figures.get("withheld"))


def agree(count: int, meaning: str) -> str:
    """What `count` images do: one looks, two look."""
    return meaning if count > 1 else meaning.replace("look", "looks")


def find_distrusted(figures: dict[str, Any]) -> list[int]:
    """Places of the classes that have more doubted labels than others, the worst first."""
    mean = figures["issues"] / figures["samples"]
    least, classes = max(DISTRUSTED * mean, OFTEN), figures["classes"]
    bad = [k for k, one in enumerate(classes) if mean and one["share"] > least]
    return sorted(bad, key=lambda k: -classes[k]["share"])[:PAIRS]


def _describe_classes(figures: dict[str, Any]) -> str:
    """Which classes have more doubted labels than others."""
    worst = [figures["classes"][k] for k in find_distrusted(figures)]
    if not worst:
        return "No class is much worse than the others."
    shares = [
        f"{c['name']} ({c['issues']:,} of {c['samples']:,} doubted{_describe_class_rate(c)})"
        for c in worst
    ]
    return f"Classes to distrust: {'; '.join(shares)}."


def _describe_class_rate(one: dict[str, Any]) -> str:
    """Between what shares of a class are wrong, where that is known."""
    rate = one.get("noise rate")
    if not rate or rate["high"] == 1:
        return ""
    return f", {rate['low']:.0%} to {rate['high']:.0%} wrong"


def _describe_features(found: dict[str, Any] | None) -> list[str]:
    """What was found by features besides wrong labels, where that is anything."""
    if found is None:
        return []
    pairs = found["duplicates"]
    counts = (
        (pairs["conflicts"], "pair of near-duplicates has", "pairs of near-duplicates have",
         "different labels"),
        (pairs["leaks"], "test image has", "test images have",
         "a near-duplicate in the training part"),
        (found["outliers"], "image looks", "images look", "out of place in every class"),
    )  # fmt: skip
    told = [
        f"{number:,} {one if number == 1 else many} {what}"
        for number, one, many, what in counts
        if number
    ]
    told += [f"{one['first']} and {one['second']} look like one class" for one in found["alike"]]
    if not told:
        return []
    return [f"Besides, {'; '.join(told[: 2 * PAIRS])} (`duplicates.csv`, `outliers.csv`)."]


def describe_planted(planted: dict[str, Any]) -> str:
    """What share of wrong labels the list has, measured on labels that were flipped on purpose."""
    kinds = [f"{share:.0%} of the {kind}" for kind, share in planted.get("verdicts", {}).items()]
    by_verdict = f" By verdict: {', '.join(kinds)}." if len(kinds) > 1 else ""
    return (
        f"Of {planted['planted']:,} labels that were flipped on purpose the leave-one-out "
        f"classifier alone would have listed {planted['recall']:.0%} of those flipped as they are "
        f"mistaken here, and {planted['recall of uniform flips']:.0%} of those flipped to any "
        f"class.{by_verdict} Real mistakes may be harder to find: people err where images are hard."
    )


def _describe_rate(figures: dict[str, Any]) -> str:
    """How much is wrong and how much is listed, or why nobody can say."""
    rate, samples = figures["noise rate"], figures["samples"]
    if rate["high"] == 1:
        return f"How many of the {samples:,} labels are wrong cannot be said: {UNKNOWN}."
    if figures.get("withheld"):
        return f"At most **{rate['high']:.1%}** of the {samples:,} labels are wrong. {WITHHELD}"
    none, count = " It may be that none is." if rate["low"] < NONE else "", figures["issues"]
    listed = "None is listed: no label is more probably wrong than right."
    if count:
        what = "1** is listed: it is" if count == 1 else f"{count:,}** are listed: they are"
        listed = f"**{what} more probably wrong than right."
    return (
        f"Between **{rate['low']:.1%}** and **{rate['high']:.1%}** of the {samples:,} labels are "
        f"wrong, most likely about **{rate['value']:.1%}**.{none} {listed} 40 decisions with "
        "`drpl review` will tell you more."
    )


def _list_next_steps(folder: Path) -> str:
    """What a person does now."""
    name = shlex.quote(str(folder))
    return (
        f"- the list: `{folder / 'issues.csv'}`, every sample: `{folder / 'samples.csv'}`\n"
        f"- the report: `{folder / 'report.html'}`\n"
        f"- look and decide: `drpl review {name}`\n"
        f"- write the corrected data set: `drpl apply {name}`\n"
        f"- use the model: `drpl predict {name} IMAGES`"
    )
