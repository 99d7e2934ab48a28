"""A page for whoever uses the corrected data set: what was changed, by whom, and how often."""

from collections import Counter
from pathlib import Path

from drpl.cleaning.correct import Change, Correction
from drpl.files import make_printable

MOST = 20  # kinds of changes that are listed


def describe_changes(correction: Correction) -> str:
    """`changes.md`, as Markdown."""
    changes, cleaned = correction.changes, correction.cleaned
    parts = [
        f"# Changes to {_escape(Path(cleaned.source).name)}",
        f"{correction.describe()}. Every change is a row of `audit.csv`, every image that was left "
        "out one of `dropped.csv`. Labels that nobody decided on are as they were given.",
        f"The labels were judged by `drpl clean`, which was finished on {cleaned.time}; "
        f"the samples have the fingerprint `{cleaned.fingerprint}`.",
    ]
    if changes:
        parts.append(_tabulate(("from", "to"), Counter(map(_name_kind, changes))))
        parts.append(_tabulate(("decided by",), Counter((change.who,) for change in changes)))
        times = sorted(change.when for change in changes)
        parts.append(
            f"The first was decided on {_escape(times[0])}, the last on {_escape(times[-1])}."
        )
    for name in correction.find_emptied():
        parts.append(f"No image is left in class {_escape(name)}; it is no class any more.")
    return "\n\n".join(parts) + "\n"


def _name_kind(change: Change) -> tuple[str, str]:
    return change.before, change.after or "left out"


def _tabulate(head: tuple[str, ...], counts: Counter[tuple[str, ...]]) -> str:
    """How often, the most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [(*names, f"{count:,}") for names, count in ranked[:MOST]]
    if rest := sum(count for _, count in ranked[MOST:]):
        rows.append(("others", *[""] * (len(head) - 1), f"{rest:,}"))
    lines = [(*head, "images"), (*["---"] * len(head), "---:"), *rows]
    return "\n".join(f"| {' | '.join(map(_escape, line))} |" for line in lines)


def _escape(text: str) -> str:
    """A text that is no markup, on one line."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in make_printable(text))
