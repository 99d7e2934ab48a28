"""Learning from images whose labels can't be trusted.

    import drpl

    result = drpl.train("photos/", out="runs/photos")   # a folder with a sub-folder per class
    result.suspicious(20)                               # the labels that are most probably wrong
    drpl.report([result], "report.html")

Names are imported when they are first used, so that the command line answers at once. What is not
listed here may change without notice.
"""

import re
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drpl.runs import machine as _machine

_machine.prepare_threads()  # before anything imports torch

# The stub, which type checkers read, is the only list of the names and of where they live.
_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_MODULES = {name: module for module, name in re.findall(r"from (\S+) import (\w+)", _STUB)}
_OLD_NAMES = {"Data": "DatasetSplits", "Reading": "ReadOptions"}

__version__ = version("drpl")
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name == "report":  # a package that can be called, see its docstring
        return import_module("drpl.report")
    if name in _OLD_NAMES:
        new = _OLD_NAMES[name]
        warnings.warn(f"drpl.{name} is now drpl.{new}", DeprecationWarning, stacklevel=2)
        name = new
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'drpl' has no attribute {name!r}")
