"""The corrected data set: a list, a folder of links, or arrays. The originals are only read."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drpl.cleaning.change_log import describe_changes
from drpl.cleaning.correct import AUDIT, Correction
from drpl.cleaning.croissant import describe_dataset
from drpl.cleaning.folder import CleanedFolder, format_csv
from drpl.cleaning.held_out import list_held_out
from drpl.cleaning.links import RECORDS, claim, list_earlier, name_link, place_links
from drpl.data.address import split_address
from drpl.data.sources import ReadOptions, load
from drpl.errors import ConfigError, DataError, RunError, StorageError
from drpl.files import check_apart, lock_folder, write_if_changed
from drpl.registry import DATASETS


class ImageFile(NamedTuple):
    """An image file of the corrected data set."""

    number: int
    path: Path  # of the original
    label: str  # nothing where the image is left out
    split: str = "train"
    cells: tuple[str, ...] = ()  # of the columns that came with the data


class AppliedData(NamedTuple):
    """What `drpl train` takes, and what a user should know about it."""

    trainable: Path
    notes: list[str]


def write(correction: Correction, out: Path, *, links: bool = False) -> AppliedData:
    """Write the corrected data set; what is there already and right is left untouched."""
    cleaned = correction.cleaned
    if not len(correction.labels):
        raise DataError("every image would be dropped; nothing would be left to train on")
    if cleaned.root and not cleaned.is_list:
        check_apart(out, cleaned.root)
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file; choose another name for the folder")
    with lock_folder(out):
        return _write(correction, out, links=links)


def _write(correction: Correction, out: Path, *, links: bool) -> AppliedData:
    """The same in a folder that nobody else writes into."""
    cleaned = correction.cleaned
    notes = [
        f"no image is left in class {name!r}; it is no class any more"
        for name in correction.find_emptied()
    ]
    if cleaned.root is None:
        if links:
            raise ConfigError(f"the images of {cleaned.source} are no files; leave --links out")
        trainable = _write_arrays(correction, out)
    else:
        files = _list_files(correction)
        trainable = (_write_links if links else _write_list)(cleaned, files, out)
        if cleaned.source.partition(":")[0] in DATASETS:
            notes.append(f"the test part of {cleaned.source} is not among the files")
    gone = [(change.id, change.path, change.before) for change in correction.dropped]
    write_if_changed(out / "dropped.csv", format_csv([("id", "path", "given_label"), *gone]))
    write_if_changed(out / "audit.csv", format_csv([AUDIT, *correction.changes]))
    _write_descriptions(correction, out, trainable)
    return AppliedData(trainable, notes)


def _write_descriptions(correction: Correction, out: Path, trainable: Path) -> None:
    """What was changed, for people, and what is in the folder, for programs."""
    files, columns = ["audit.csv", "dropped.csv"], []
    if trainable != out:
        files = [trainable.name, *files]
    if trainable.suffix == ".csv":
        with trainable.open(encoding="utf-8") as file:
            columns = next(csv.reader(file))
    about = describe_dataset(correction, out, files, columns)
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    write_if_changed(out / "croissant.json", text)
    write_if_changed(out / "changes.md", describe_changes(correction))


def _list_files(correction: Correction) -> list[ImageFile]:
    """Every image and, for training to be judged, those that were held out from it."""
    cleaned = correction.cleaned
    paths = cleaned.samples["path"]
    left = set(correction.labels)
    labels = correction.labels.reindex(paths.index, fill_value="")
    cells = cleaned.samples[list(cleaned.columns)].itertuples(index=False, name=None)
    rows = [
        (number, path, label, "train", more)
        for number, path, label, more in zip(paths.index, paths, labels, cells, strict=True)
    ]
    first = int(paths.index.max()) + 1
    rows += [
        (first + k, one.path, one.label if one.label in left else "", one.split, one.cells)
        for k, one in enumerate(list_held_out(cleaned))
    ]
    files = []
    for number, path, label, split, more in rows:
        file = cleaned.file(path)
        if file is None:
            raise RunError(f"samples.csv: {path!r} is not inside the data set {cleaned.root}")
        files.append(ImageFile(number, file, label, split, more))
    return files


def _write_list(cleaned: CleanedFolder, files: list[ImageFile], out: Path) -> Path:
    """`labels.csv`, which `drpl train` takes; the column split only if something is held out."""
    files = [file for file in files if file.label]
    for text in (text for file in files for text in (str(file.path), file.label)):
        if text != text.strip():
            raise DataError(
                f"{text!r} begins or ends with a space, which a list cannot hold; use --links"
            )
    claim(out, "list", cleaned)
    columns = ("path", "label", "split")[: 3 if any(f.split != "train" for f in files) else 2]
    rows = ([*(getattr(file, name) for name in columns), *file.cells] for file in files)
    write_if_changed(out / "labels.csv", format_csv([(*columns, *cleaned.columns), *rows]))
    return out / "labels.csv"


def _write_links(cleaned: CleanedFolder, files: list[ImageFile], out: Path) -> Path:
    """A folder for each class with links to its images, or copies where links cannot be."""
    own = {name_link(file.number, file.path) for file in files}
    files = [file for file in files if file.label]
    if any(split_address(file.path)[1] for file in files):
        raise ConfigError(
            f"the images of {cleaned.source} are parts of files, to which there are no links; "
            "leave --links out"
        )
    held = "test" if any(file.split == "test" for file in files) else "val"
    files = [file for file in files if file.split in ("train", held)]
    parts = any(file.split == held for file in files) or "train" in cleaned.classes
    _check_names({file.label for file in files})
    wanted = {
        Path(*([file.split] if parts else []), file.label, name_link(file.number, file.path)): (
            file.path
        )
        for file in files
    }
    there = list_earlier(out)
    claim(out, "links", cleaned)
    place_links(out, wanted, there, own)
    return out


def _check_names(labels: Iterable[str]) -> None:
    """Raise for a class whose name cannot be that of a folder."""
    for label in labels:
        if label.startswith(".") or label in ("", *RECORDS) or set(label) & {"/", "\\", "\0"}:
            raise DataError(f"class {label!r} cannot be a folder; leave --links out")


def _write_arrays(correction: Correction, out: Path) -> Path:
    """`data.npz` from the source's pixels, with the corrected labels."""
    import torch

    cleaned = correction.cleaned
    data = load(cleaned.source, ReadOptions(**cleaned.read))
    names = data.train.classes
    if [names[i] for i in data.train.labels.tolist()] != cleaned.samples["given_label"].tolist():
        raise RunError(
            f"the labels of {cleaned.source} are not those that were cleaned; "
            "apply where `drpl clean` was run, to the same data"
        )
    left = set(correction.labels)
    classes = [name for name in names if name in left]
    number = {name: k for k, name in enumerate(classes)}
    renumbered = np.array([number.get(name, -1) for name in names])
    kept = cleaned.samples.index.get_indexer(correction.labels.index)
    content = {
        "x": data.train.images.load(torch.from_numpy(kept)).numpy(),
        "y": np.array([number[label] for label in correction.labels]),
        "classes": np.array(classes),
    }
    if truth := data.train.truth:
        right = renumbered[truth.labels.numpy()]
        content["y_true"] = np.where(truth.in_distribution.numpy(), right, -1)[kept]
    if data.test:
        labels = renumbered[data.test.labels.numpy()]
        known = (labels >= 0).nonzero()[0]
        content["x_test"] = data.test.images.load(torch.from_numpy(known)).numpy()
        content["y_test"] = labels[known]
    claim(out, "arrays", cleaned)
    buffer = io.BytesIO()
    np.savez(buffer, **content)  # type: ignore[arg-type]
    write_if_changed(out / "data.npz", buffer.getvalue())
    return out / "data.npz"
