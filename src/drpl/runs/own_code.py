"""What tells a user's own function from another: its name, its text, and what it was made with."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from drpl.files import digest, slugify

USUAL = "train"  # what the function of a method is called; it needs no name beside its file's
PLAIN = (str, bytes, int, float, bool, type(None))


def name_own(function: Callable[..., Any]) -> str:
    """The file of a method of the user's own; with the function's name, unless that is `train`."""
    inner = _find_function(function)
    file, name = Path(inspect.getfile(inner)).stem, inner.__name__
    return file if name == USUAL else f"{file}-{slugify(name)}"


def identify_own(function: Callable[..., Any]) -> str:
    """A fingerprint of a user's function, the same in every process.

    Of values that it was made with (a partial's, a closure's, defaults) only plain ones count,
    since the text of others may change from one process to the next.
    """
    return digest(_describe(function).encode())


def _describe(value: Any) -> str:
    """A function or class with what it was made with; or a plain value."""
    if isinstance(value, partial):
        return str([_describe(value.func), *map(_show, value.args), _show(value.keywords)])
    inner = _find_function(value)
    about = [inner.__module__, inner.__qualname__, _read_source(inner)]
    owner = value.__self__ if inspect.ismethod(value) else value
    if owner is not inner:  # an object that can be called, or whose method this is
        about.append(_show(getattr(owner, "__dict__", {})))
    if inspect.isfunction(inner):
        about += [_show(inner.__defaults__), _show(inner.__kwdefaults__)]
        about.append(_show(inspect.getclosurevars(inner).nonlocals))
    return str(about)


def _show(value: Any) -> str:
    """A plain value, alone or among others; of a function its text, of anything else its type."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return str({str(key): _show(one) for key, one in value.items()})
    if isinstance(value, list | tuple):
        return str([_show(one) for one in value])
    if inspect.isfunction(value) or inspect.isclass(value):
        return f"{value.__qualname__} {_read_source(value)}"
    return type(value).__qualname__


def _find_function(value: Any) -> Any:
    """The function or class whose text says what is done."""
    while isinstance(value, partial):
        value = value.func
    if inspect.isclass(value) or inspect.isfunction(value):
        return value
    return value.__func__ if inspect.ismethod(value) else type(value)


def _read_source(function: Any) -> str:
    """Its text or, where that is not kept, its instructions."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return f"{code.co_code.hex()} {code.co_names} {_show(code.co_consts)}" if code else ""
