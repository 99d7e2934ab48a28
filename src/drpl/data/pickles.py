"""Pickled files of public data sets, read without running anything that they ask for.

A pickle may name any function of any module. Here it may name six, all of them numpy's way of
writing arrays, and even those are answered by stand-ins that build plain arrays and nothing else.
"""

import io
import pickle
import pickletools
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from drpl.errors import DataError

REFUSED = frozenset(  # steps that make objects, and others that no array needs
    {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
    | {"EMPTY_SET", "ADDITEMS", "FROZENSET", "NEXT_BUFFER", "READONLY_BUFFER"}
)
KINDS = re.compile(r"b1|[iu][1248]|f[248]")  # booleans and numbers
TUPLES = 10_000  # more could nest so deeply that comparing them overflows the stack


class Kind:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object, *flags: object) -> None:
        if not isinstance(code, str) or not KINDS.fullmatch(code):
            raise DataError(f"an array of {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class Shell:
    """Stands in for numpy.ndarray: empty until its state comes."""

    def __init__(self) -> None:
        self.array = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array has no proper shape")
        flat = np.frombuffer(as_bytes(raw), kind.dtype)
        self.array = flat.reshape(shape, order="F" if fortran else "C")


def as_bytes(raw: object) -> bytes | bytearray:
    """An array's content; Python 2 had it as text."""
    if isinstance(raw, bytes | bytearray):
        return raw
    if isinstance(raw, str):
        return raw.encode("latin1")
    raise TypeError("an array has no content")


def reconstruct(subtype: object, shape: object, code: object) -> Shell:
    """Stands in for numpy's `_reconstruct`; the shape comes again with the state."""
    return Shell()


def frombuffer(raw: bytes, kind: Kind, shape: tuple[int, ...], order: str) -> Shell:
    """Stands in for numpy's `_frombuffer`, which pickles of protocol 5 name."""
    shell = Shell()
    shell.__setstate__((1, shape, kind, order == "F", raw))
    return shell


def scalar(kind: Kind, raw: bytes | str) -> Any:
    """Stands in for numpy's `scalar`: a plain Python number."""
    return np.frombuffer(as_bytes(raw), kind.dtype, 1)[0].item()


def encode(text: str, encoding: str = "latin1") -> bytes:
    """Stands in for `_codecs.encode`, by which Python 2 reads the bytes of Python 3."""
    return text.encode("latin1")


CORES = ("numpy.core", "numpy._core")  # before and since numpy 2
ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): Shell,
    ("numpy", "dtype"): Kind,
    ("_codecs", "encode"): encode,
    **{(f"{core}.multiarray", "_reconstruct"): reconstruct for core in CORES},
    **{(f"{core}.multiarray", "scalar"): scalar for core in CORES},
    **{(f"{core}.numeric", "_frombuffer"): frombuffer for core in CORES},
}


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
