"""The options that say how a data set is read: the same for every command that reads one."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from drpl.data import Hold, Reading

SIZE = typer.Option(help="Pixels a side that images are scaled to [default: as suits].", min=4)
LIMIT = typer.Option(help="Use at most so many images of each part, evenly by class.", min=2)
DATA_DIR = typer.Option(help="Where named data sets are [default: $DRPL_DATA, or else ./data].")
DOWNLOAD = typer.Option("--download", help="Fetch CIFAR from its makers if it is not there.")
OUTSIDE = typer.Option(help="A class to set aside for out-of-distribution noise; may be repeated.")
HOLD = typer.Option(
    help="Keep the pixels of files in memory, in a cache on disk, or decode the files each time; "
    "auto: in memory if they fit, else in a cache."
)
CACHE = typer.Option(help="Folder of that cache [default: .drpl-cache].")
SKIP = typer.Option("--skip-broken", help="Leave out files that cannot be read.")

PLAIN = Reading()  # stands in a command's signature where its options will be
OPTIONS: dict[str, tuple[Any, Any]] = {  # of `Reading`, with their defaults
    "size": (Annotated[int | None, SIZE], None),
    "limit": (Annotated[int | None, LIMIT], None),
    "data_dir": (Annotated[Path | None, DATA_DIR], None),
    "download": (Annotated[bool, DOWNLOAD], False),
    "outside": (Annotated[list[str] | None, OUTSIDE], None),
    "hold": (Annotated[Hold, HOLD], "auto"),
    "cache": (Annotated[Path | None, CACHE], None),
    "skip_broken": (Annotated[bool, SKIP], False),
}


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options in place of its parameter `reading`."""
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name != "reading":
            parameters.append(parameter)
            continue
        for name, (hint, default) in OPTIONS.items():
            kind = Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(Parameter(name, kind, default=default, annotation=hint))

    @wraps(command)
    def with_options(**given: Any) -> None:
        told = {name: given.pop(name) for name in OPTIONS}
        told["outside"] = tuple(told["outside"] or ())
        command(**given, reading=Reading(**told))

    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    with_options.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    return with_options
