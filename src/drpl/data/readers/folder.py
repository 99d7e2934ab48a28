"""A folder of images with a sub-folder for each class."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from drpl.data.dataset import (
    Dataset,
    DatasetSplits,
    check_every_class,
    select_columns,
    statistics,
)
from drpl.data.pixel_store import hold, open_snapshot, save_snapshot
from drpl.data.sources import ReadOptions
from drpl.errors import DataError, StorageError, did_you_mean
from drpl.files import explain_read_errors, make_printable

SUFFIXES = {
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".avif", ".heic", ".heif"),
}
TEST_NAMES = ("test", "val", "valid", "validation")
NAMED = 3  # of what is left out


def check_no_images(out: Path) -> None:
    """Raise if a folder to write holds images: what is written would be among data next time."""
    places = [out, *(one for one in out.iterdir() if one.is_dir())] if out.is_dir() else []
    for place in places:
        with explain_read_errors(place):
            found = next((one for one in place.iterdir() if one.suffix.lower() in SUFFIXES), None)
        if found:
            raise StorageError(f"{out} holds images, such as {found}; choose another folder")


class Kind(NamedTuple):
    """A kind of thing that is not read, in words for one and for several."""

    one: str
    many: str


NO_IMAGE = Kind("file that is no image by its ending", "files that are no images by their endings")
NO_FILE = Kind(
    "pipe, device or broken link that is named like an image",
    "pipes, devices or broken links that are named like images",
)
LINKED = Kind(
    "folder inside of a class folder that is a link",
    "folders inside of class folders that are links",
)
NO_TEXT = Kind(
    "file or folder whose name is not UTF-8", "files or folders whose names are not UTF-8"
)
NOT_CHOSEN = Kind("class that was not chosen", "classes that were not chosen")
ABOVE = Kind(
    "image file above the folders that name classes",
    "image files above the folders that name classes",
)
ONLY_TESTED = Kind(
    "folder of the test part that is no class of the training part",
    "folders of the test part that are no classes of the training part",
)

Notes = tuple[str, ...]
Scale = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation per channel
LeftOut = dict[Kind, list[str]]  # what is not read, by the kind of thing that it is


class Listed(NamedTuple):
    """Image files, from the data set's root on, and what is known of each."""

    names: list[str]
    labels: torch.Tensor
    columns: Mapping[str, Sequence[str]] = {}
    tags: torch.Tensor | None = None  # where an image may have several labels


def folder(root: Path | str, read_options: ReadOptions | None = None) -> DatasetSplits:
    """Read `root/<class>/...`, or `root/train/<class>/...` with `root/test/<class>/...`.

    With a depth of 2 classes are `root/a/b/...` and called `a/b`, and so on.
    Images of all sizes become squares of `read_options.size` pixels (default: the middle of their
    shorter sides, a multiple of 8 up to 64). The set is grey if every image is.
    """
    root, read_options = Path(root), read_options or ReadOptions()
    cached = read_options.hold in ("auto", "cache") and not read_options.lazy
    if cached and (kept := open_snapshot(root, read_options)):
        return kept
    train_root, test_root, notes = find_parts(root)
    left_out: LeftOut = {}
    depth = read_options.depth or 1
    found = sorted(list_classes(train_root, depth, left_out))
    if not found:
        if depth > 1:
            raise DataError(f"{train_root} has no sub-folders at depth {depth}; try a smaller one")
        flat = ", or find the labels in the files' names with --label-pattern"
        raise DataError(
            f"{train_root} has no sub-folders; put the images of each class into one of its own"
            f"{flat if ABOVE in left_out else ''}"
        )
    classes = _choose_classes(found, read_options.classes, left_out)
    train = list_labelled(train_root, classes, root, left_out)
    if not train.names:
        raise DataError(f"{train_root} has no images ({', '.join(sorted(SUFFIXES))})")
    check_every_class(train.labels, classes, folder=train_root)
    test = None
    if test_root:
        test = list_labelled(test_root, classes, root, left_out)
        known = {*found, *left_out.get(NOT_CHOSEN, ())}
        if others := sorted(set(list_classes(test_root, depth, left_out)) - known):
            left_out[ONLY_TESTED] = others
    notes += describe_left_out(left_out)
    data = from_files(root.resolve().name, root, classes, train, test, read_options)
    data = replace(data, notes=notes + data.notes)
    tops = [top / name for top in (train_root, test_root) if top for name in classes]
    if cached:
        everything = [top for top in (train_root, test_root, *tops) if top]
        save_snapshot(data, root, everything, read_options)
    return data


def find_parts(root: Path) -> tuple[Path, Path | None, Notes]:
    """Where the classes of the training part are, and of the test part; what is neither is noted.

    A folder `train` that has no folders inside is a class like the others beside it.
    """
    names = list_folders(root)
    parts = [name for name in ("train", *TEST_NAMES) if name in names]
    others = [name for name in names if name not in parts]
    if "train" not in parts or (others and not list_folders(root / "train")):
        taken = f"the folders {', '.join(parts)} are taken for classes"
        if len(parts) == 1:
            taken = f"the folder {parts[0]} is taken for a class"
        notes = (taken,) if parts else ()
        return root, None, notes
    unused = [*parts[2:], *others]
    notes = ()
    if unused:
        named = ", ".join(unused[:NAMED]) + (", ..." if len(unused) > NAMED else "")
        what = "1 folder" if len(unused) == 1 else f"{len(unused)} folders"
        notes = (f"left out {what} beside {' and '.join(parts[:2])}: {named}",)
    return root / "train", root / parts[1] if parts[1:] else None, notes


def list_folders(where: Path, left_out: LeftOut | None = None) -> list[str]:
    """The names of the folders in a folder, or links to folders, that are not hidden."""
    found = []
    for path in sorted(where.iterdir()):
        if not path.name.startswith(".") and path.is_dir():
            if _is_text(path.name):
                found.append(path.name)
            elif left_out is not None:
                left_out.setdefault(NO_TEXT, []).append(path.name)
    return found


def list_classes(where: Path, depth: int, left_out: LeftOut, below: str = "") -> Iterator[str]:
    """The folders that name classes, as a/b where they are not right here."""
    for path in sorted(where.iterdir()):
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith("."):
            left_out.setdefault(ABOVE, []).append(f"{below}{path.name}")
    for name in list_folders(where, left_out):
        if depth == 1:
            yield f"{below}{name}"
        else:
            yield from list_classes(where / name, depth - 1, left_out, f"{below}{name}/")


def _choose_classes(found: list[str], asked: tuple[str, ...], left_out: LeftOut) -> tuple[str, ...]:
    """The classes that were asked for, or all."""
    for name in asked:
        if name not in found:
            raise DataError(f"no class is named {name!r}; {did_you_mean(name, found)}")
    if others := [name for name in found if asked and name not in asked]:
        left_out[NOT_CHOSEN] = others
    return tuple(name for name in found if not asked or name in asked)


def describe_left_out(left_out: LeftOut) -> Notes:
    """A sentence for each kind of thing that is not read."""
    return tuple(
        f"left out {len(names):,} {kind.one if len(names) == 1 else kind.many}: "
        + ", ".join(map(make_printable, names[:NAMED]))
        + (", ..." if len(names) > NAMED else "")
        for kind, names in left_out.items()
    )


def _is_text(name: str) -> bool:
    """Whether a name can be written into a table."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def from_files(
    name: str,
    root: Path,
    classes: tuple[str, ...],
    train: Listed,
    test: Listed | None,
    read_options: ReadOptions,
    shape: tuple[int, int, int] | None = None,
    scale: Scale | None = None,
) -> DatasetSplits:
    """A data set of image files below `root` in one size, kept as `read_options` ask."""
    given = train.labels if train.tags is None else train.tags.nonzero()[:, 1]
    check_every_class(given, classes)  # before the images are decoded, which can take long

    def part(files: Listed, what: str, like: tuple[int, ...] | None) -> tuple[Dataset, Notes]:
        images, broken = hold(root, files.names, read_options, what, like)
        kept = [i for i in range(len(files.names)) if i not in broken]
        dataset = Dataset(
            images,
            files.labels[kept],
            classes,
            paths=tuple(files.names[i] for i in kept),
            columns=select_columns(files.columns, kept),
            tags=None if files.tags is None else files.tags[kept],
        )
        return dataset, tuple(f"left out {why}" for why in broken.values())

    first, notes = part(train, "train", shape)
    check_every_class(first.entries, classes, given)
    second = None
    if test and test.names:
        second, more = part(test, "test", first.images.shape)
        notes += more
    if read_options.lazy:
        scale = (0.0,) * 3, (1.0,) * 3  # of the vectors it is another one
    mean, std = scale or statistics(first.images)
    return DatasetSplits(name, first, second, mean, std, notes=notes, root=root)


def list_labelled(
    where: Path, classes: tuple[str, ...], root: Path, left_out: LeftOut | None = None
) -> Listed:
    """Every image file below the class folders of `where`, from `root` on, with its label."""
    below = where.relative_to(root)
    found = [
        list(list_images(where / name, str(below / name), left_out))
        if (where / name).is_dir()
        else []
        for name in classes
    ]
    counts = torch.tensor([len(names) for names in found])
    every = [name for names in found for name in names]
    return Listed(every, torch.arange(len(classes)).repeat_interleave(counts))


def list_images(where: Path | str, name: str, left_out: LeftOut | None = None) -> Iterator[str]:
    """The image files in a folder and its sub-folders, in a fixed order.

    What is not read goes to `left_out`. Hidden files count as nothing; links to folders are not
    followed, for they may lead in circles.
    """
    left_out = {} if left_out is None else left_out
    with os.scandir(where) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{name}{os.sep}{entry.name}"
        if entry.name.startswith("."):
            continue
        if not _is_text(entry.name):
            left_out.setdefault(NO_TEXT, []).append(path)
        elif entry.is_dir(follow_symlinks=False):
            yield from list_images(entry.path, path, left_out)
        elif kind := _find_obstacle(entry):
            left_out.setdefault(kind, []).append(path)
        else:
            yield path


def _find_obstacle(entry: "os.DirEntry[str]") -> Kind | None:
    """What a directory's entry is if it is no image file."""
    linked = entry.is_symlink()
    if linked and os.path.isdir(entry.path):  # noqa: PTH112
        return LINKED
    if os.path.splitext(entry.name)[1].lower() not in SUFFIXES:  # noqa: PTH122
        return NO_IMAGE
    # What a folder's listing says of files that are no links costs no look at each.
    whole = os.path.isfile(entry.path) if linked else entry.is_file()  # noqa: PTH113
    return None if whole else NO_FILE
