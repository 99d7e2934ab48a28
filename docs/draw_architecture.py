"""The picture of docs/architecture.md: which package may import which, drawn from the table.

pytest tests/test_architecture.py --regenerate-golden   # writes it anew
"""

from collections.abc import Mapping, Sequence
from html import escape

ROW, CELL, NAME, LETTER = 26, 26, 112, 6.5  # pixels; letters are about as wide at most
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.name{font-weight:600}.about{fill:#555}"
    ".band{fill:#f4f6f8}.line{stroke:#d5dade}.dot{fill:#2a6fb0}.self{fill:#d5dade}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.about{fill:#aaa}.band{fill:#222831}"
    ".line{stroke:#3a434d}.dot{fill:#7fb3e6}.self{fill:#3a434d}}"
)


def draw(edges: Mapping[str, Sequence[str]], about: Mapping[str, str]) -> str:
    """An SVG: a row for each package and what it is for, a dot for each package it may import."""
    names = list(edges)
    texts = {name: escape(about[name].replace("`", ""), quote=False) for name in names}
    top, left = 96, round(NAME + LETTER * max(map(len, texts.values())) + 30)
    width, height = left + CELL * len(names) + 12, top + ROW * len(names) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Which package may import which</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{left - 10}" y="{top - 12}" text-anchor="end" class="about">may import</text>',
    ]
    for k, name in enumerate(names):
        x = left + CELL * k + CELL / 2
        parts.append(
            f'<text x="{x}" y="{top - 10}" transform="rotate(-60 {x} {top - 10})">{name}</text>'
        )
    for k, (name, imports) in enumerate(edges.items()):
        y = top + ROW * k
        if k % 2 == 0:
            parts.append(f'<rect class="band" x="0" y="{y}" width="{width}" height="{ROW}"/>')
        parts.append(f'<text class="name" x="8" y="{y + 18}">{name}</text>')
        parts.append(f'<text class="about" x="{NAME}" y="{y + 18}">{texts[name]}</text>')
        for column, other in enumerate(names):
            x = left + CELL * column + CELL / 2
            kind = "self" if other == name else "dot" if other in imports else ""
            if kind:
                parts.append(f'<circle class="{kind}" cx="{x}" cy="{y + ROW / 2}" r="6"/>')
    parts.append(f'<line class="line" x1="{left}" x2="{left}" y1="{top}" y2="{height - 8}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"
