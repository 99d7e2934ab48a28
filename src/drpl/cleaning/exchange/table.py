"""Plain CSV: a row for each decision, or an image that nobody decided on.

`path` or `id` say which image, `label` what it is; the other columns are ours and may be missing.
Whoever fills in a label in a spreadsheet has decided. Label Studio's CSV and its JSON-MIN, which is
the same as JSON, are read too.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpl.cleaning.exchange.labels import Export, Label, read_label
from drpl.cleaning.folder import format_csv
from drpl.files import write_atomic

COLUMNS = (
    *("id", "path", "given_label", "suggested_label", "p_noisy", "confidence"),
    *("label", "action", "who", "time", "why"),
)
ALIASES = {"image": "path", "annotator": "who", "created_at": "time", "updated_at": "time"}


def write(export: Export, path: Path) -> None:
    """Write a table for people and programs."""
    rows: list[tuple[object, ...]] = [COLUMNS]
    for image in export.images:
        scores = (f"{image.p_noisy:.4g}", f"{image.confidence:.4g}")
        start = (image.number, image.name, image.given, image.predicted, *scores)
        for said in export.describe(image):
            label = said["label"] if said["action"] else ""  # to be filled in
            rows.append((*start, label, *(said[name] for name in COLUMNS[7:])))
    write_atomic(path, format_csv(rows))


def parse(content: Any) -> Iterator[Label] | None:
    """The labels of rows that have one."""
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        return None
    rows = [{ALIASES.get(key, key): value for key, value in row.items()} for row in content]
    if not rows or not all("label" in row and {"path", "id"} & set(row) for row in rows):
        return None
    return _parse(rows)


def _parse(rows: list[dict[str, Any]]) -> Iterator[Label]:
    for row in rows:
        label = row["label"]
        choices = label.get("choices", []) if isinstance(label, dict) else [label]
        for choice in choices:
            found = read_label(row, row.get("path"), choice)
            if found.label:
                yield found._replace(action=found.action or None)
