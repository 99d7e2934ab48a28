"""What the cases of a claim amount to, and how that is shown."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from benchmarks.claims.cases import Case
from benchmarks.claims.listing import GROUPS, Claim
from benchmarks.lookup import Figure, Results
from drpl.report.table import DASH

CONFIRMED, IN_PART, NOT = "confirmed", "in part", "not confirmed"
HOLDS = {True: "yes", False: "**no**", None: DASH}  # none: runs are missing
UNTESTABLE, UNMEASURED = "not testable here", "not measured yet"
MARKS = {CONFIRMED: "✔", IN_PART: "◐", NOT: "✘", UNTESTABLE: "–", UNMEASURED: "…"}

Found = dict[str, list[tuple[Claim, list[Case]]]]  # by group, in the order of the page


def find_all(results: Results) -> Found:
    """Every claim with its cases."""
    return {
        group: [(claim, list(claim.find(results))) for claim in claims]
        for group, claims in GROUPS.items()
    }


def decide(claim: Claim, cases: Sequence[Case]) -> str:
    """Confirmed if every case bears the claim out, in part if at least half of them do.

    One that lacks runs does not, so that what failed cannot make a claim look better.
    """
    if claim.why_not:
        return UNTESTABLE
    ours = [case.holds for case in cases if not case.published]
    if set(ours) <= {None}:
        return UNMEASURED
    share = ours.count(True) / len(ours)
    return CONFIRMED if share == 1 else IN_PART if share >= 0.5 else NOT


def describe(claim: Claim, cases: Sequence[Case]) -> dict[str, Any]:
    """A claim as `claims.json` has it: each figure with the file, the column and the rows."""
    return {
        "claim": claim.title,
        "in the paper": claim.where,
        "command": claim.command,
        "verdict": decide(claim, cases),
        "cases": [
            {
                "case": case.name,
                "published": case.published,
                "holds": case.holds,
                "figures": {head: asdict(figure) for head, figure in case.figures.items()},
            }
            for case in cases
        ],
    }


def show_verdict(claim: Claim, cases: Sequence[Case]) -> str:
    """The verdict with its mark, and the number of cases."""
    verdict = decide(claim, cases)
    ours = [case.holds for case in cases if not case.published]
    borne_out = f", {ours.count(True)} of {len(ours)}"
    tried = verdict not in (UNTESTABLE, UNMEASURED)
    return f"{MARKS[verdict]} {verdict}{borne_out if tried else ''}"


def draw_summary(found: Found) -> str:
    """One table of all claims: what, where in the paper, verdict."""
    lines, numbers = ["| claim | in the paper | verdict, cases |", "| --- | --- | --- |"], count(1)
    for group, members in found.items():
        lines.append(f"| **{group}** | | |")
        for claim, cases in members:
            number = next(numbers)
            title = f"[{number}. {claim.title}](#{make_anchor(number, claim)})"
            lines.append(f"| {title} | {claim.where} | {show_verdict(claim, cases)} |")
    return "\n".join(lines) + "\n"


def make_anchor(number: int, claim: Claim) -> str:
    """Where a heading is linked to, as Markdown's renderers make it."""
    kept = [c for c in f"{number} {claim.title}".lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def draw_sections(found: Found) -> str:
    """A section for each claim: what the paper says, the rule, the cases, and the command."""
    parts, numbers = [], count(1)
    for group, members in found.items():
        parts.append(f"## {group}\n")
        for claim, cases in members:
            parts.append(f"### {next(numbers)}. {claim.title}\n")
            texts = describe_claim(claim, cases)
            parts.append("\n".join(text if text[0] == "|" else wrap(text) for text in texts))
    return "\n".join(parts)


def wrap(text: str) -> str:
    """A paragraph in lines of the length that pages have; links stay whole."""
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) + "\n"


def describe_claim(claim: Claim, cases: Sequence[Case]) -> Iterator[str]:
    """The paragraphs and the table of one claim."""
    where = claim.where if claim.where.startswith("[") else f"the paper: {claim.where}"
    yield f"**{show_verdict(claim, cases)}** ({where}). {claim.says}\n"
    if claim.rule:
        yield f"A case confirms it if {claim.rule}.\n"
    if claim.why_not:
        yield f"{claim.why_not} What the paper prints:\n"
    if cases:
        yield draw_cases(claim, cases)
    command = " and ".join(f"`{one}`" for one in claim.command.split("; "))
    files = sorted({figure.file for case in cases for figure in case.figures.values()})
    links = (f"[{name_file(file)}](../{file})" for file in files)
    yield f"Command: {command}. Files: {', '.join(links) or 'none yet'}.\n"


def name_file(file: str) -> str:
    """A file in few words."""
    return file.partition("results/")[2] or file.rpartition("/")[2]


def draw_cases(claim: Claim, cases: Sequence[Case]) -> str:
    """A row for each case; the paper's come first."""
    heads = list(dict.fromkeys(head for case in cases for head in case.figures))
    lines = [[claim.unit, *heads, "holds"], ["---", *["---:"] * len(heads), "---"]]
    for case in cases:
        cells = [show(case.figures.get(head), claim.digits) for head in heads]
        lines.append([case.name, *cells, HOLDS[case.holds]])
    end = None if claim.rule else -1  # without a rule nothing was judged
    return "".join(f"| {' | '.join(line[:end])} |\n" for line in lines)


def show(figure: Figure | None, digits: int) -> str:
    """A figure with what it is of, or a dash where there is none."""
    if figure is None:
        return DASH
    notes = [figure.note, f"{figure.missing} missing" if figure.missing else ""]
    note = ", ".join(filter(None, notes))
    return f"{figure.value:.{digits}f}" + (f" ({note})" if note else "")
