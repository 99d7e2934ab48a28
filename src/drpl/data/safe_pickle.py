"""Pickled files of public data sets, read without running anything that they ask for.

A pickle may name any function of any module. Here it may name six, all of them numpy's way of
writing arrays, and even those are answered by stand-ins that build plain arrays and nothing else.
"""

import io
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

from drpl.data.standins import ADMITTED, Shell
from drpl.errors import DataError

REFUSED = frozenset(  # steps that make objects, and others that no array needs
    {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
    | {"EMPTY_SET", "ADDITEMS", "FROZENSET", "NEXT_BUFFER", "READONLY_BUFFER"}
)
TUPLES = 10_000  # more could nest so deeply that comparing them overflows the stack


class Unpickler(pickle.Unpickler):
    """Reads plain values and arrays; whatever else a file names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name."""
        if (module, name) not in ADMITTED:
            raise DataError(f"{module}.{name}")
        return ADMITTED[module, name]


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickled file, with texts for keys."""
    try:
        return unpickle(path.read_bytes(), path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_archive(path: Path) -> dict[str, Any]:
    """The dictionary in a file of `torch.save` that holds arrays and no tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            entry = next(i for i in archive.infolist() if i.filename.endswith("data.pkl"))
            if entry.compress_type != zipfile.ZIP_STORED:  # might unfold to any size
                raise DataError(f"cannot read {path}: its content is compressed")
            content = archive.read(entry)
    except StopIteration:
        raise DataError(f"cannot read {path}: it holds no data.pkl") from None
    except DataError:
        raise
    except Exception as error:  # what zipfile raises for damaged files is not documented
        raise DataError(f"cannot read {path}: {error or type(error).__name__}") from error
    return unpickle(content, path)


def unpickle(content: bytes, path: Path) -> dict[str, Any]:
    """Check every step of a pickle, then take them."""
    try:
        check(content)
        found = Unpickler(io.BytesIO(content), encoding="latin1").load()
    except DataError as error:
        raise DataError(
            f"{path} asks for {error}, which a file of images and labels does not need; "
            "nothing of it was run, do not trust it"
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way
        reason = str(error).strip() or type(error).__name__
        raise DataError(f"cannot read {path}: it is damaged or no pickle ({reason})") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} should hold a dictionary, not a {type(found).__name__}")
    return {as_text(key): plain(value) for key, value in found.items()}


def check(content: bytes) -> None:
    """Refuse steps that no array needs, and those that would take memory without reason."""
    tuples = 0
    for number, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if opcode.name in REFUSED:
            raise DataError(f"the pickle step {opcode.name}")
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > number:
            raise ValueError("it numbers its parts wrongly")
        tuples += opcode.name.startswith("TUPLE")
        if tuples > TUPLES:
            raise ValueError("it has too many parts")


def as_text(key: object) -> str:
    """A key as Python 3 would have it."""
    return key.decode("latin1") if isinstance(key, bytes) else str(key)


def plain(value: Any) -> Any:
    """The array for a stand-in; anything else as it is."""
    return value.array if isinstance(value, Shell) else value
