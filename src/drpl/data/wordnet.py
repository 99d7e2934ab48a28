"""Names of ImageNet's classes, from the files that list them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from drpl.data.sources import explain_data_errors
from drpl.errors import DataError

ROLES = {"id": True, "ood": False}  # whether a class is to be learnt


@dataclass(frozen=True)
class Term:
    """One class: its WordNet id, its name, and whether it is to be learnt or outside."""

    wnid: str
    word: str
    inside: bool | None = None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    with explain_data_errors(path):
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def parse_whole(text: str) -> int | None:
    """A number from 0 to 999,999,999, if the text is one."""
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def read_map(path: Path) -> dict[int, Term]:
    """`map_clsloc.txt`: rows of WordNet id, label, name."""
    terms = {}
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        label = parse_whole(words[1]) if len(words) == 3 else None
        if label is None:
            raise DataError(f"{path}, line {number}: wanted are a WordNet id, a label and a name")
        terms[label] = Term(words[0], words[2].replace("_", " "))
    return terms


def read_roles(path: Path) -> dict[int, Term]:
    """`classes.json`: label -> wnid, words and role (id or ood)."""
    with explain_data_errors(path):
        content = json.loads(path.read_text("utf-8"))
    try:
        return {
            label: Term(row["wnid"], row["words"].partition(",")[0], ROLES[row["role"]])
            for label, row in sorted((int(label), row) for label, row in content.items())
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError(
            f"{path} should hold for each label its wnid, words and role ('id' or 'ood')"
        ) from None


def class_names(labels: Iterable[int], terms: Mapping[int, Term]) -> tuple[str, ...]:
    """A name for each label, none twice: two of ImageNet's cranes differ by their WordNet id."""
    found = [terms.get(label, Term("", str(label))) for label in labels]
    counts = Counter(term.word for term in found)
    return tuple(
        term.word if counts[term.word] == 1 else f"{term.word} ({term.wnid})" for term in found
    )
