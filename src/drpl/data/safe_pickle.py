"""Pickled files of public data sets, read without running anything that they ask for.

A pickle may name any function of any module. Here it may name six, all of them numpy's way of
writing arrays, and even those are answered by stand-ins that build plain arrays and nothing else.
"""

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drpl.data.sources import explain_data_errors
from drpl.errors import DataError

REFUSED = frozenset(  # steps that make objects, and others that no array needs
    {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
    | {"EMPTY_SET", "ADDITEMS", "FROZENSET", "NEXT_BUFFER", "READONLY_BUFFER"}
)
TUPLES = 10_000  # more could nest so deeply that comparing them overflows the stack
KINDS = re.compile(r"b1|[iu][1248]|f[248]")  # booleans and numbers


class _Kind:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object, *flags: object) -> None:
        if not isinstance(code, str) or not KINDS.fullmatch(code):
            raise DataError(f"an array of {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Shell:
    """Stands in for numpy.ndarray: empty until its state comes."""

    def __init__(self) -> None:
        self.array = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array has no proper shape")
        flat = np.frombuffer(_to_bytes(raw), kind.dtype)
        self.array = flat.reshape(shape, order="F" if fortran else "C")


def _to_bytes(raw: object) -> bytes | bytearray:
    """An array's content; Python 2 had it as text."""
    if isinstance(raw, bytes | bytearray):
        return raw
    if isinstance(raw, str):
        return raw.encode("latin1")
    raise TypeError("an array has no content")


def _frombuffer(raw: bytes, kind: _Kind, shape: tuple[int, ...], order: str) -> _Shell:
    """Stands in for numpy's `_frombuffer`, which pickles of protocol 5 name."""
    shell = _Shell()
    shell.__setstate__((1, shape, kind, order == "F", raw))
    return shell


def _scalar(kind: _Kind, raw: bytes | str) -> Any:
    """Stands in for numpy's `scalar`: a plain Python number."""
    return np.frombuffer(_to_bytes(raw), kind.dtype, 1)[0].item()


CORES = ("numpy.core", "numpy._core")  # before and since numpy 2
ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Shell,
    ("numpy", "dtype"): _Kind,
    # By this Python 2 reads the bytes of Python 3.
    ("_codecs", "encode"): lambda text, encoding="latin1": text.encode("latin1"),
    # The shape comes again with the state.
    **{
        (f"{core}.multiarray", "_reconstruct"): lambda kind, shape, code: _Shell() for core in CORES
    },
    **{(f"{core}.multiarray", "scalar"): _scalar for core in CORES},
    **{(f"{core}.numeric", "_frombuffer"): _frombuffer for core in CORES},
}


class _Unpickler(pickle.Unpickler):
    """Reads plain values and arrays; whatever else a file names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name."""
        if (module, name) not in ADMITTED:
            raise DataError(f"{module}.{name}")
        return ADMITTED[module, name]


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickled file, with texts for keys."""
    with explain_data_errors(path):
        content = path.read_bytes()
    return _unpickle(content, path)


def read_archive(path: Path) -> dict[str, Any]:
    """The dictionary in a file of `torch.save` that holds arrays and no tensors."""
    with explain_data_errors(path), zipfile.ZipFile(path) as archive:
        entries = [i for i in archive.infolist() if i.filename.endswith("data.pkl")]
        if not entries:
            raise ValueError("it holds no data.pkl")
        if entries[0].compress_type != zipfile.ZIP_STORED:  # might unfold to any size
            raise ValueError("its content is compressed")
        content = archive.read(entries[0])
    return _unpickle(content, path)


def _unpickle(content: bytes, path: Path) -> dict[str, Any]:
    """Check every step of a pickle, then take them."""
    try:
        _check(content)
        found = _Unpickler(io.BytesIO(content), encoding="latin1").load()
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
    return {  # keys of Python 2 are bytes
        key.decode("latin1") if isinstance(key, bytes) else str(key): (
            value.array if isinstance(value, _Shell) else value
        )
        for key, value in found.items()
    }


def _check(content: bytes) -> None:
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


def read_batch(path: Path, key: str = "labels") -> tuple[Tensor, Tensor]:
    """uint8 [N, 3, S, S] and int64 [N] of a batch of CIFAR or ImageNet32: rows, plane by plane."""
    content = read_pickle(path)
    missing = [name for name in ("data", key) if name not in content]
    if missing:
        raise DataError(f"{path} lacks {missing[0]!r}; it has {', '.join(content) or 'nothing'}")
    rows, labels = content["data"], to_labels(content[key])
    side = 0
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype == np.uint8:
        side = round((rows.shape[1] / 3) ** 0.5)
    if not side or rows.shape[1] != 3 * side**2:
        raise DataError(f"{path} should hold uint8 rows of three square planes as 'data'")
    if labels is None or len(labels) != len(rows):
        raise DataError(f"{path} should hold one whole number for each of {len(rows)} images")
    pixels = np.array(rows).reshape(-1, 3, side, side)  # a copy: the file's bytes are read-only
    return torch.from_numpy(pixels), labels


def to_labels(values: Any) -> Tensor | None:
    """int64 [N], if that is what these are."""
    if isinstance(values, list) and all(type(v) is int and abs(v) < 2**31 for v in values):
        return torch.tensor(values, dtype=torch.int64)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        return torch.from_numpy(values.astype(np.int64))
    return None


def list_batches(root: Path, stem: str, most: int) -> list[Path]:
    """The files `stem`1 to `stem`most that are there, in order."""
    files = [file for n in range(1, most + 1) if (file := root / f"{stem}{n}").is_file()]
    if not files:
        raise DataError(f"{root} has none of {stem}1 to {stem}{most}")
    return files


def join_batches(parts: Sequence[tuple[Tensor, Tensor]], root: Path) -> tuple[Tensor, Tensor]:
    """Several batches as one."""
    if len({pixels.shape[1:] for pixels, _ in parts}) > 1:
        raise DataError(f"the files in {root} hold images of different sizes")
    pixels, labels = zip(*parts, strict=True)
    return torch.cat(pixels), torch.cat(labels)
