"""Files written whole or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from glob import escape
from itertools import chain, count
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder, XMLParser

import numpy as np
from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from drpl.errors import DataError, DrplError, RunError, StorageError

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
LOCK = ".lock"  # in every folder that is written
SEAL = "seal"  # in a sealed JSON file: the fingerprint of all else in it
LARGE_ARCHIVE = 2**30  # bytes of unpacked arrays that a small file must not have,
MOST_PACKED = 200  # when they are so many times its own
FULL = "free some space or choose another folder, then run the same command again"
OCCUPIED = "a folder is wanted where that file is, so choose another name"
CLOSED = "choose another folder, or have this one opened for writing"
REMEDIES = {  # of errors while writing, by their number
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), OCCUPIED),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), CLOSED),
    errno.EISDIR: "it is a folder, so name a file",
}
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextlib.contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn a failure to write into a sentence: a full disk is not a bug."""
    try:
        yield
    except OSError as error:
        advice = REMEDIES.get(error.errno or 0, "choose another folder")
        raise StorageError(f"cannot write {path}: {error.strerror or error}; {advice}") from error


@contextlib.contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file of a run makes its reader raise into a sentence."""
    try:
        yield
    except (DrplError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(
            f"{path} is damaged ({reason}); copy it again, or train in a new folder"
        ) from error


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Be the only process that writes into a folder, which is made if it is not there.

    The lock is the operating system's: it ends with its process, however that ends. Whoever holds
    it may take it again inside.
    """
    with explain_write_errors(folder):
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.resolve() / LOCK, is_singleton=True)
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            raise StorageError(
                f"another process is writing into {folder}; wait until it has ended, or choose "
                "another folder"
            ) from None
    try:
        remove_partials(folder, "*")
        remove_partials(folder, "*", "*/")
        yield
    except BaseException:
        if fresh and [path.name for path in folder.iterdir()] == [LOCK]:  # nothing was written
            shutil.rmtree(folder)
        raise
    finally:
        lock.release()


def remove_partials(folder: Path, name: str, below: str = "") -> None:
    """Remove what killed processes left of files; only who holds the folder's lock may."""
    with explain_write_errors(folder):
        for partial in folder.glob(f"{below}.{name}.partial"):
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step, if the block ends well."""
    if not path.name:
        raise StorageError(f"cannot write {path}: it is a folder; name a file")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_dead(path)
        try:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def _remove_dead(path: Path) -> None:
    """Remove what killed processes left of the same file, where no lock says that they are gone."""
    if sys.platform == "win32":  # where to ask for a process is to end it
        return
    for partial in path.parent.glob(f".{escape(path.name)}.*.partial"):
        number = partial.name.split(".")[-2]
        try:
            if number.isdecimal():
                os.kill(int(number), 0)  # only asks whether there is such a process
        except ProcessLookupError:
            partial.unlink(missing_ok=True)
        except OSError:  # somebody else's
            pass


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace `path` in one step: a reader sees the old file or the new one, never a part."""
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError:
            raise StorageError(f"cannot write {path}: a name in it is not UTF-8") from None
    with open_atomic(path) as file:
        file.write(content)


def write_if_changed(path: Path, content: bytes | str) -> None:
    """Write `path` unless it says the same already: its date then tells when that began."""
    new = content.encode() if isinstance(content, str) else content
    if not path.exists() or path.read_bytes() != new:
        write_atomic(path, new)


def read_text(path: Path) -> str:
    """The text of a file of ours, or an error."""
    with explain_read_errors(path):
        return path.read_text("utf-8")


def read_json(path: Path, record: type[BaseModel] | None = None) -> dict[str, Any]:
    """A JSON object from a file of ours that holds what `record` says, or an error."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"there is no {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged: it holds no JSON object")
    if record:
        check_record(path, content, record)
    if content.get(SEAL) not in (None, _make_seal(content)):
        raise RunError(f"{path} is damaged: it does not say what was written")
    return content


def read_toml(path: Path, record: type[BaseModel]) -> dict[str, Any]:
    """A TOML file of ours, likewise."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    check_record(path, content, record)
    return content


def check_record(path: Path, content: Any, record: type[BaseModel]) -> None:
    """Raise unless what was read from a file is what `record` says."""
    try:
        record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"{path} is damaged: {where}: {first['msg'].lower()}") from None


class _TreeBuilder(TreeBuilder):
    """A tree without entities, which could make much of a few bytes, or read other files."""

    def doctype(self, *_: object) -> None:
        raise DataError("it has a document type, which is not read")


def parse_xml(data: bytes) -> Element:
    """The root of an XML text without a document type."""
    parser = XMLParser(target=_TreeBuilder())  # noqa: S314  entities need a document type
    parser.feed(data)
    root: Element = parser.close()
    return root


def write_json(path: Path, value: Any, *, sealed: bool = False) -> None:
    """Write `value` as JSON that people can read too.

    A sealed file is refused by `read_json` if anything in it was changed: a wrong figure in what
    a command goes on with would else be believed.
    """
    if sealed:
        value = value | {SEAL: _make_seal(value)}
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _make_seal(content: Mapping[str, Any]) -> str:
    """A fingerprint of all but the seal."""
    rest = {name: value for name, value in content.items() if name != SEAL}
    return digest(json.dumps(rest, sort_keys=True).encode())


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compress: bool = False) -> None:
    """Write arrays as an .npz file; equal arrays give equal bytes."""
    with open_atomic(path) as file:
        (np.savez_compressed if compress else np.savez)(file, **arrays)


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file of a run, or an error that says what is wrong with it."""
    with explain_read_errors(path):
        return load_arrays(path)


def load_arrays(path: Path, *names: str) -> dict[str, Any]:
    """The arrays of an .npz file, or that of an .npy file as `x`; ValueError if it is not one.

    With names those arrays only: others may be large.
    What a file claims to hold is compared with its size before anything is allocated.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if zipfile.is_zipfile(file):
            file.seek(0)
            with zipfile.ZipFile(file) as archive:
                total = sum(member.file_size for member in archive.infolist())
                if total > LARGE_ARCHIVE and total > MOST_PACKED * size:
                    raise ValueError(f"its {size:,} bytes would unpack to {total:,}")
                for member in archive.infolist():
                    with archive.open(member) as inside:
                        _check_array(inside, member.file_size)
        else:
            file.seek(0)
            _check_array(file, size)
        file.seek(0)
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {"x": found}
        return {name: found[name] for name in names or found.files}


def _check_array(file: IO[bytes], size: int) -> None:
    """Raise unless an array of numpy's format takes as many bytes as it says."""
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"it is in version {version[0]}.{version[1]} of numpy's format")
    shape, _, kind = HEADERS[version](file)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    wanted, there = prod(shape) * kind.itemsize, size - file.tell()
    if wanted != there:
        raise ValueError(f"an array should have {wanted:,} bytes, but has {there:,}")


def make_printable(text: str) -> str:
    """The text on one line, with codes for what a terminal cannot show, as in some files' names."""
    return "".join(map(_show_sign, text))


def _show_sign(sign: str) -> str:
    """A sign, or its code; bytes that are not UTF-8 are signs of their own in Python."""
    if sign.isprintable():
        return sign
    if "\udc80" <= sign <= "\udcff":
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("unicode_escape").decode()


def check_apart(out: Path, *sources: str | Path | None) -> None:
    """Raise if what is to be written lies in a folder that is read: it would be data next time."""
    for source in (one for one in sources if one):
        if Path(source).is_dir() and out.resolve().is_relative_to(Path(source).resolve()):
            raise StorageError(f"{out} is inside the data set {source}; choose another folder")


def check_not_in_run(out: Path) -> None:
    """Raise if a file would lie among those of a run, which it might replace."""
    folder = out.resolve().parent
    if any((folder / name).exists() for name in ("config.toml", "plan.json")):
        raise StorageError(f"{out} is inside the run folder {folder}; choose another place")


def check_page(out: Path) -> None:
    """Raise unless a file is named like a page: one that is there already may be a list."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise StorageError(f"a page is written to a file that ends with .html, not {out}")


def propose_folder(source: str | Path) -> Path:
    """Where to write what is made of a data set: a folder that is not there, and outside of it."""
    here, place = Path.cwd(), Path(source).resolve()
    inside = place.is_dir() and here.is_relative_to(place)
    home = Path(os.path.relpath(place.parent, here)) if inside else Path()
    names = chain(["cleaned"], (f"cleaned-{k}" for k in count(2)))
    return next(home / name for name in names if not (home / name).exists())


def quote_formula(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with an apostrophe before it."""
    if isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unquote_formula(text: str) -> str:
    """The text that `quote_formula` was given."""
    return text[1:] if text[:1] == "'" and FORMULA.match(text[1:]) else text


def format_table(table: "pd.DataFrame", *, header: bool = True, quoting: int = 0) -> str:
    """A table as CSV for people: no cell is a formula, and equal figures give equal bytes."""
    safe, names = table.copy(), [quote_formula(name) for name in table.columns]
    safe.columns = range(len(names))  # classes may share a name
    for k in safe.columns:
        if safe[k].dtype.kind == "O":
            safe[k] = safe[k].map(quote_formula)
    head = names if header else False
    style = {"float_format": "%.6g", "lineterminator": "\n", "quoting": quoting}
    return str(safe.to_csv(index=False, header=head, **style))


def unquote_formulas(table: "pd.DataFrame", columns: Iterable[str]) -> "pd.DataFrame":
    """A table that was read from such a text, as it was."""
    return table.assign(**{name: table[name].map(unquote_formula) for name in columns})


def slugify(text: str) -> str:
    """The text with nothing in it that a folder's name should not have."""
    return "".join(sign if sign.isalnum() or sign in "-_.+" else "-" for sign in text)


def digest(*contents: bytes) -> str:
    """A short fingerprint of `contents`."""
    hashed = hashlib.sha256()
    for content in contents:
        hashed.update(content)
    return hashed.hexdigest()[:16]
