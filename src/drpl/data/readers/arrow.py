"""Data sets of Hugging Face as `save_to_disk` leaves them: Arrow files with the images inside.

Only pyarrow is needed to read them. Images are decoded from the mapped files when they are asked
for, so that a data set may be larger than memory.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drpl.data.address import SIGN, open_table
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import Kind, LeftOut
from drpl.data.readers.list import LABEL_NAMES, choose_column, to_text
from drpl.data.readers.rows import OTHER_SPLITS, SPLITS, Rows, build
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError, did_you_mean

OUTSIDE = Kind(
    "row whose image is not in the data set but elsewhere",
    "rows whose images are not in the data set but elsewhere",
)
UNUSED = Kind(
    "part that is neither train nor test nor val", "parts that are neither train nor test nor val"
)


def read(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """A saved `Dataset`, or the parts of a `DatasetDict` that are called like ours."""
    left_out: LeftOut = {}
    rows = Rows()
    with explain_data_errors(root):
        for split, folder in _list_parts(root, left_out):
            for name in _list_files(folder):
                _read_file(root, folder / name, split, rows, read_options, left_out)
    return build(root, root, rows, read_options, left_out)


def _list_parts(root: Path, left_out: LeftOut) -> list[tuple[str, Path]]:
    if not (root / "dataset_dict.json").is_file():
        return [("train", root)]
    names = json.loads((root / "dataset_dict.json").read_text("utf-8"))["splits"]
    parts = []
    for name in map(str, names):
        split = OTHER_SPLITS.get(name.lower(), name.lower())
        if split in SPLITS:
            parts.append((split, root / name))
        else:
            left_out.setdefault(UNUSED, []).append(name)
    if not any(split == "train" for split, _ in parts):
        raise DataError(f"{root} has the parts {', '.join(map(str, names))}; none is called train")
    return parts


def _list_files(folder: Path) -> list[str]:
    state = json.loads((folder / "state.json").read_text("utf-8"))
    if state.get("_indices_files"):
        raise DataError(f"{folder} has an index of its rows; save it once more with save_to_disk")
    names = [str(one["filename"]) for one in state["_data_files"]]
    if strange := [name for name in names if Path(name).name != name or name.startswith(".")]:
        raise DataError(f"{folder / 'state.json'} names {strange[0]!r}, which is no file beside it")
    return names


def _read_file(
    root: Path,
    file: Path,
    split: str,
    rows: Rows,
    read_options: ReadOptions,
    left_out: LeftOut,
) -> None:
    """Add the rows of one file."""
    table = open_table(file)
    features = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    about = features.get("info", {}).get("features", {})
    image = _find_image(file, table, read_options.path_column)
    others = [name for name in table.column_names if name != image]
    label = None
    if not read_options.label_pattern:
        chosen = choose_column(file, others, read_options.label_column, LABEL_NAMES, "label")
        label = others.pop(chosen)
    labels = _read_labels(table, label, about) if label else [""] * len(table)
    held = table.column(image).combine_chunks()
    names = held.field("path").to_pylist() if "path" in _list_fields(held) else [""] * len(held)
    content = held.field("bytes") if "bytes" in _list_fields(held) else held
    inside = content.is_valid().to_pylist()
    cells = {
        name: [to_text(cell) for cell in table.column(name).to_pylist()]
        for name in others
        if not _is_image(table.schema.field(name).type)
    }
    home = file.relative_to(root).as_posix()
    for i, label_text in enumerate(labels):
        place = f"{home}{SIGN}{image}/{i}"
        if not inside[i]:
            left_out.setdefault(OUTSIDE, []).append(place)
            continue
        row = {name: values[i] for name, values in cells.items()}
        rows.add(place, label_text, split, file_name=Path(names[i] or "").name, **row)


def _list_fields(column: Any) -> Sequence[str]:
    kind = column.type
    return [kind.field(k).name for k in range(kind.num_fields)]


def _is_image(kind: Any) -> bool:
    """Whether a column can hold images: bytes, or bytes with a path."""
    fields = [kind.field(k).name for k in range(kind.num_fields)]
    return str(kind) in ("binary", "large_binary") or "bytes" in fields


def _find_image(file: Path, table: Any, asked: str | None) -> str:
    found = [name for name in table.column_names if _is_image(table.schema.field(name).type)]
    if asked is not None and asked not in found:
        raise DataError(f"{file} has no column {asked!r} of images; {did_you_mean(asked, found)}")
    if not found:
        raise DataError(f"{file} has no column of images: {', '.join(table.column_names)}")
    return asked or found[0]


def _read_labels(table: Any, name: str, about: dict[str, Any]) -> list[str]:
    """Names of classes where the data set knows them; lists of labels as JSON."""
    kind = about.get(name)
    kind = kind if isinstance(kind, dict) else {}
    names: list[str] = kind.get("names") or (kind.get("feature") or {}).get("names") or []

    def tell(cell: Any) -> Any:
        if isinstance(cell, list):
            return [tell(one) for one in cell]
        known = names and isinstance(cell, int) and 0 <= cell < len(names)
        return names[cell] if known else None if names and cell == -1 else cell

    return [to_text(tell(cell)) for cell in table.column(name).to_pylist()]
