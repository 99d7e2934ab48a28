"""Fetching the archives of public data sets: whole and checked, or not at all."""

import hashlib
import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import DownloadColumn, Progress

from drpl.errors import DataError
from drpl.files import explain_write_errors

CHUNK = 2**18  # bytes
PATIENCE = 30  # seconds without a byte


@dataclass(frozen=True)
class Archive:
    """A public file, the sum that says whether it is right, and the folder inside it."""

    url: str
    md5: str
    folder: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


def obtain(archive: Archive, home: Path) -> None:
    """Fetch an archive, unless it is there already, and unpack it into `home`."""
    file = home / archive.name
    if not file.is_file() or _compute_md5(file) != archive.md5:
        _fetch(archive, file)
    _unpack(file, archive.folder)


def _fetch(archive: Archive, file: Path) -> None:
    """Download to `file`, going on where an earlier attempt broke off."""
    part = file.with_name(f"{file.name}.part")
    with explain_write_errors(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    begun = part.stat().st_size
    asked = urllib.request.Request(archive.url)  # noqa: S310  an address written in this library
    if begun:
        asked.add_header("Range", f"bytes={begun}-")
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310  the same
            _receive(answer, part, begun if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0)
    except urllib.error.URLError as error:  # also what a server refuses, with a code
        code = getattr(error, "code", "")
        if code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # no more to come
            raise DataError(
                f"cannot fetch {archive.url}: {f'{code} {error.reason}'.strip()}; try later, or "
                f"put {archive.name} into {file.parent} yourself"
            ) from error
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"the download of {archive.url} broke off after {part.stat().st_size:,} bytes, which "
            f"are kept in {part}; run the same command again to go on"
        ) from error
    if _compute_md5(part) != archive.md5:
        part.unlink()
        raise DataError(
            f"{archive.url} came out damaged (its MD5 sum is not {archive.md5}) and was deleted; "
            "run the same command again"
        )
    with explain_write_errors(file):
        part.replace(file)


def _receive(answer: http.client.HTTPResponse, part: Path, begun: int) -> None:
    """Append the bytes of an answer, with a bar; raise if fewer come than were announced."""
    length = answer.length
    total = None if length is None else begun + length
    console = Console(stderr=True)
    with (
        part.open("r+b") as file,
        Progress(
            *Progress.get_default_columns(),
            DownloadColumn(),
            console=console,
            disable=not console.is_terminal,
        ) as bars,
    ):
        task = bars.add_task(part.stem, total=total, completed=begun)
        file.seek(begun)
        file.truncate()
        while block := answer.read(CHUNK):
            with explain_write_errors(part):  # a full disk is another matter than a broken line
                file.write(block)
                file.flush()
            bars.update(task, advance=len(block))
        if total is not None and file.tell() < total:
            raise http.client.IncompleteRead(b"", total - file.tell())


def _compute_md5(file: Path) -> str:
    """The MD5 sum of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _unpack(file: Path, folder: str) -> None:
    """Extract a tar archive's folder next to it, in one step."""
    partial = file.with_name(f".{folder}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tarfile.open(file) as tar, explain_write_errors(partial):
            tar.extractall(partial, filter="data")
        with explain_write_errors(file.parent / folder):
            (partial / folder).replace(file.parent / folder)
    except tarfile.TarError as error:
        raise DataError(f"cannot unpack {file}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
