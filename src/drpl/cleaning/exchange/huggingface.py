"""Hugging Face: an ImageFolder with `metadata.csv`, for `load_dataset("imagefolder", ...)`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpl.cleaning.exchange.image_tree import write_images
from drpl.cleaning.exchange.labels import Export, Label, read_labels_once
from drpl.cleaning.folder import format_csv
from drpl.files import write_atomic

COLUMNS = (
    *("file_name", "label", "path", "given_label", "predicted", "p_noisy"),
    *("action", "who", "time", "why", "others"),
)


def write(export: Export, path: Path) -> None:
    """Write links to the images in `train`, and `metadata.csv` beside them."""
    rows: list[tuple[object, ...]] = [COLUMNS]
    with write_images(export, path, "huggingface", "train") as places:
        for image, place in places:
            said = export.describe_once(image)
            scores = (image.predicted, f"{image.p_noisy:.4g}")
            start = (place.name, said["label"], image.name, image.given, *scores)
            rows.append((*start, *(said[name] for name in COLUMNS[6:])))
        write_atomic(path / "train" / "metadata.csv", format_csv(rows))


def parse(content: Any) -> Iterator[Label] | None:
    """The label of each row."""
    if not isinstance(content, list) or not content:
        return None
    if not all(isinstance(row, dict) and {"file_name", "label"} <= set(row) for row in content):
        return None
    return (one for row in content for one in read_labels_once(row, row["file_name"], row["label"]))
