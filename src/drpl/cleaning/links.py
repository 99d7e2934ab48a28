"""Folders of links to the images of a data set, and whose folder it is."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from drpl.cleaning.folder import CleanedFolder
from drpl.errors import RunError, StorageError
from drpl.files import LOCK, explain_write_errors, read_json, write_if_changed

MARK = "applied.json"  # says that a folder was written here, and from what
RECORDS = (MARK, "dropped.csv", "audit.csv", "croissant.json", "changes.md", LOCK)
LONGEST = 255  # bytes of a file's name
COARSE = 2  # seconds: some disks keep a file's time no better


def claim(out: Path, kind: str, cleaned: CleanedFolder) -> None:
    """Take a folder, or say that it holds something else."""
    wanted = {"kind": kind, "samples": cleaned.fingerprint}
    found = None
    with contextlib.suppress(RunError):
        found = read_json(out / MARK)
    if found != wanted and any(not path.name.startswith(".") for path in out.iterdir()):
        raise StorageError(
            f"{out} holds something else than {kind} made from {cleaned.folder}; "
            "choose another folder"
        )
    write_if_changed(out / MARK, json.dumps(wanted, indent=2) + "\n")


def name_link(number: int, path: Path) -> str:
    """A name that no other image has, with an ending that image folders are searched for."""
    from drpl.data.readers.folder import SUFFIXES

    start, suffix = f"{number:07}", path.suffix
    ending = "" if suffix.lower() in SUFFIXES else ".png"  # readers go by the bytes inside
    name = f"{start}-{path.name}{ending}"
    return name if len(os.fsencode(name)) <= LONGEST else f"{start}{ending or suffix}"


def list_earlier(out: Path) -> list[Path]:
    """What an earlier time left in a folder, links among it, without the records."""
    found = []
    for place, folders, names in os.walk(out):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        records = RECORDS if Path(place) == out else ()
        found += [Path(place) / name for name in (*links, *names) if name not in records]
    return found


def place_links(
    out: Path, wanted: Mapping[Path, Path], there: Iterable[Path], own: set[str]
) -> None:
    """Make the links that are wanted, as places in `out` and originals; remove earlier ones.

    `there` is what `list_earlier` found; all of it must have one of the names in `own`.
    """
    for file in there:
        if file.name not in own:
            raise StorageError(f"{file} was not put there by `drpl apply`; take it out")
    with explain_write_errors(out):
        for link in there:
            if link.relative_to(out) not in wanted:
                link.unlink()
                with contextlib.suppress(OSError):  # until others are there
                    for folder in link.relative_to(out).parents[:-1]:
                        (out / folder).rmdir()
        for place, original in wanted.items():
            _place_link(out / place, original)


def _place_link(link: Path, original: Path) -> None:
    """Link to a file, or copy it where that cannot be done; leave what is right."""
    if link.is_symlink():
        if link.readlink() == original:
            return
        link.unlink()
    elif link.exists():
        is_, was = link.stat(), original.stat()
        if is_.st_size == was.st_size and abs(is_.st_mtime - was.st_mtime) <= COARSE:
            return
    link.parent.mkdir(parents=True, exist_ok=True)
    try:
        link.symlink_to(original)
    except (OSError, NotImplementedError):
        shutil.copy2(original, link)
