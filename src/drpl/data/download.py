"""Fetching the archives of public data sets: whole and checked, or not at all.

A download that breaks off leaves nothing behind and begins anew the next time.
"""

import hashlib
import http.client
import shutil
import tarfile
import urllib.request
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import wrap_file

from drpl.errors import DataError
from drpl.files import explain_write_errors, write_atomic

CHUNK = 2**18  # bytes
PATIENCE = 30  # seconds without a byte


def obtain(url: str, md5: str, folder: Path) -> None:
    """Fetch an archive to beside `folder`, unless it is there, and unpack that folder of it."""
    file = folder.parent / url.rpartition("/")[2]
    if not file.is_file() or _compute_md5(file.read_bytes()) != md5:
        content = _fetch(url, file)
        if _compute_md5(content) != md5:
            raise DataError(
                f"{url} came out damaged (its MD5 sum is not {md5}) and was not kept; run the same "
                "command again"
            )
        write_atomic(file, content)
    _unpack(file, folder)


def _compute_md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _fetch(url: str, file: Path) -> bytes:
    """The bytes of an archive, with a progress bar; memory must hold its images later anyway."""
    console = Console(stderr=True)
    quiet = not console.is_terminal
    try:
        with (
            urllib.request.urlopen(url, timeout=PATIENCE) as answer,  # noqa: S310  our own
            wrap_file(
                answer, answer.length or 0, description=file.name, console=console, disable=quiet
            ) as body,
        ):
            content = b"".join(iter(partial(body.read, CHUNK), b""))
            if answer.length:
                raise ConnectionError(f"the download broke off after {len(content):,} bytes")
    except (OSError, http.client.HTTPException) as error:  # also what a server refuses, with a code
        raise DataError(
            f"cannot fetch {url}: {error}; try later, or put {file.name} into {file.parent} "
            "yourself"
        ) from error
    return content


def _unpack(file: Path, folder: Path) -> None:
    """Extract a tar archive's folder, in one step."""
    fresh = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        with tarfile.open(file) as tar, explain_write_errors(folder):
            tar.extractall(fresh, filter="data")
            (fresh / folder.name).replace(folder)
    except tarfile.TarError as error:
        raise DataError(f"cannot unpack {file}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
