"""What tells a user's own function from another: its name, its text, and what it was made with."""

import copyreg
import dis
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path
from types import CellType, CodeType
from typing import Any

from torch import Tensor

from drpl.files import digest, slugify
from drpl.registry import METHODS

USUAL = "train"  # what the function of a method is called; it needs no name beside its file's
PLAIN = (str, int, float, bool, type(None))
FIXED = (*PLAIN, tuple, property, classmethod)  # unlike a list, not filled while a method runs
STANDARD = Path(os.__file__).parent
PACKAGES = {"site-packages", "dist-packages"}
Known = dict[int, tuple[Any, str]]  # what was described, by its id; it stays, so the id does too


def name_own(function: Callable[..., Any]) -> str:
    """The file of a method of the user's own; with the function's name, unless that is `train`.

    It begins with `own-` where there is no file, and where it would be another method's name.
    """
    inner = _find_function(function)
    file, name = _find_file(inner), slugify(inner.__name__)
    if not file:
        return f"own-{name}"
    full = slugify(file.stem) if name == USUAL else f"{slugify(file.stem)}-{name}"
    other = full in METHODS and METHODS[full].target.partition(":")[0] != inner.__module__
    return f"own-{full}" if other else full


def identify_own(function: Callable[..., Any]) -> str:
    """A fingerprint of a user's function, the same in every process.

    All of the file counts in which the function or class is defined, so that any edit makes it
    another one. Where there is no file (a notebook, a console) its instructions count, with the
    functions, classes, numbers and texts that they name. What it was made with counts too: a
    partial's arguments, a closure, defaults, an object's attributes. Of these, code of installed
    packages counts by its name, and what cannot be pickled by its type.
    """
    inner = _find_function(function)
    file = _find_file(inner)
    return digest(file.read_bytes() if file else b"", _describe((function, inner), {}).encode())


def _find_function(value: Any) -> Any:
    """The function or class whose text says what is done, without partials and decorators."""
    if isinstance(value, partial):
        return _find_function(value.func)
    if hasattr(value, "__wrapped__"):
        return _find_function(inspect.unwrap(value))
    if inspect.ismethod(value):
        return _find_function(value.__func__)
    return value if inspect.isclass(value) or inspect.isfunction(value) else type(value)


def _find_file(code: Any) -> Path | None:
    """The file that a function or class is defined in, if there is one."""
    try:
        file = Path(inspect.getfile(code))
    except (OSError, TypeError):
        return None
    return file if file.is_file() else None


def _describe(value: Any, known: Known) -> str:
    """A short text that equal values have in common."""
    if isinstance(value, bytes):
        return digest(value)
    if type(value) in PLAIN:
        return repr(value)
    if id(value) not in known:
        known[id(value)] = value, "itself"  # where it is part of itself
        texts = [_describe(part, known) for part in _take_apart(value)]
        if isinstance(value, set | frozenset):
            texts.sort()
        known[id(value)] = value, digest("\0".join([type(value).__qualname__, *texts]).encode())
    return known[id(value)][1]


def _take_apart(value: Any) -> Iterable[Any]:
    """What makes a value what it is; nothing, if it cannot be taken apart."""
    if inspect.isfunction(value):
        made_with = (value.__defaults__, value.__kwdefaults__, value.__closure__)
        return value.__qualname__, *_read_function(value), *made_with
    if inspect.isclass(value):
        return value.__qualname__, *_read_class(value)
    if inspect.iscode(value):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, partial):
        return value.func, value.args, sorted(value.keywords.items())
    if inspect.ismethod(value) or isinstance(value, staticmethod | classmethod):
        return value.__func__, getattr(value, "__self__", None)
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, dict):
        return value.items()
    return value if isinstance(value, list | tuple | set | frozenset) else _reduce(value)


def _read_function(function: Any) -> Iterable[Any]:
    """The text of its file, and where in it the function is; or else what it does and names."""
    file, code = _find_file(function), function.__code__
    if not file:
        named = {name: function.__globals__.get(name) for name in _list_globals(code)}
        return code, _select_fixed(named)
    if _is_installed(file):
        return [file.stem]
    of_many = function.__name__ == "<lambda>"  # in a line
    return file.read_bytes(), code.co_firstlineno, code if of_many else None


def _read_class(kind: type) -> Iterable[Any]:
    """The text of its file, if there is one, and what the class consists of."""
    file = _find_file(kind)
    if kind.__module__ in sys.builtin_module_names or (file and _is_installed(file)):
        return [file and file.stem]
    return file and file.read_bytes(), kind.__bases__, _select_fixed(vars(kind))


def _is_installed(file: Path) -> bool:
    return STANDARD in file.parents or not PACKAGES.isdisjoint(file.parts)


def _list_globals(code: CodeType) -> Iterator[str]:
    """The global names that instructions ask for."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
        elif inspect.iscode(step.argval):
            yield from _list_globals(step.argval)


def _select_fixed(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Of named values those that stay the same while a method runs, by name."""
    return [
        (name, value)
        for name, value in sorted(values.items())
        if callable(value) or (isinstance(value, FIXED) and not name.startswith("__"))
    ]


def _reduce(value: Any) -> Iterable[Any]:
    """What it is made of again when it is unpickled."""
    try:
        if isinstance(value, CellType):
            return [value.cell_contents]
        if isinstance(value, Tensor):
            return [value.numpy(force=True)]
        reduce = copyreg.dispatch_table.get(type(value), methodcaller("__reduce_ex__", 4))
        made = reduce(value)
        parts = [made] if isinstance(made, str) else made
        return [list(part) if isinstance(part, Iterator) else part for part in parts]
    except Exception:  # whatever an object raises that is not meant to be pickled
        return []
