"""Noise as a user writes it: `uniform:0.6,scheme=official`, or a sum `uniform:0.2+ood:0.2`."""

import re


def split_spec(spec: str) -> list[str]:
    """The parts of a sum; a plus sign within a file's name is none."""
    return re.split(r"\+(?=[a-z-]+(?::|$))", spec)


def parse_spec(spec: str) -> list[tuple[str, float | None]]:
    """The kinds of noise in a text and their rates; None where the value is a file or nothing."""
    parts: list[tuple[str, float | None]] = []
    for text in split_spec(spec):
        kind, _, rest = text.partition(":")
        try:
            parts.append((kind, float(rest.partition(",")[0])))
        except ValueError:
            parts.append((kind, None))
    return parts
