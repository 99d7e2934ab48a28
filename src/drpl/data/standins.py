"""What answers to the names in a pickle: builders of plain arrays, and of nothing else."""

import re
from typing import Any

import numpy as np

from drpl.errors import DataError

KINDS = re.compile(r"b1|[iu][1248]|f[248]")  # booleans and numbers


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
