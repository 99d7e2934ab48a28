"""The images of a cleaned data set that were not for training: `apply` hands them on."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from drpl.cleaning.folder import CleanedFolder
from drpl.data.sources import FILES, ReadOptions, is_plain_folder, load


class HeldOut(NamedTuple):
    """An image that training was judged by."""

    path: str
    label: str
    split: str
    cells: tuple[str, ...] = ()  # of the columns that came with the data


def list_held_out(cleaned: CleanedFolder) -> Iterator[HeldOut]:
    """All of them, as the data say now."""
    root, source = cleaned.root, Path(cleaned.source)
    if root is None:
        return
    if not source.exists():  # seen from another folder
        source = root / source.name if source.suffix.lower() in FILES else root
    options = ReadOptions(**cleaned.read, lazy=True, skip_broken=True)
    if cleaned.is_list and source.suffix.lower() != ".npz":
        yield from _read_list(cleaned, source, options)
    elif cleaned.read or not is_plain_folder(source):
        yield from _load(cleaned, source, options)
    elif (root / "train").is_dir():  # else there is no part to hold out, nor need of torch
        from drpl.data.readers.folder import find_parts, list_labelled

        _, part, _ = find_parts(root)
        if part:
            files = list_labelled(part, cleaned.classes, root)
            for name, label in zip(files.names, files.labels.tolist(), strict=True):
                yield HeldOut(name, cleaned.classes[label], "test")


def _read_list(cleaned: CleanedFolder, source: Path, options: ReadOptions) -> Iterator[HeldOut]:
    """Those of a list, test and val."""
    from drpl.data.readers.list import read_list
    from drpl.data.readers.rows import choose_rows, name_column

    rows, labels, _ = choose_rows(source, read_list(source, options), options, {})
    columns = {name_column(name): cells for name, cells in rows.columns.items()}
    for i, split in enumerate(rows.splits):
        if split != "train":
            cells = tuple(columns[name][i] for name in cleaned.columns)
            yield HeldOut(rows.paths[i], labels[i][0], split, cells)


def _load(cleaned: CleanedFolder, source: Path, options: ReadOptions) -> Iterator[HeldOut]:
    """Those of a data set of any other kind."""
    part = load(str(source), options).test
    if part is None or part.paths is None:
        return
    for i, path in enumerate(part.paths):
        cells = tuple(part.columns[name][i] for name in cleaned.columns)
        yield HeldOut(path, part.classes[int(part.labels[i])], "test", cells)
