"""The options that say how a data set is read: the same for every command that reads one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from drpl.cli.sharing import Group, takes
from drpl.data.sources import Hold, ReadOptions

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

OPTIONS: dict[str, tuple[Any, Any]] = {
    "size": (Annotated[int | None, SIZE], None),
    "limit": (Annotated[int | None, LIMIT], None),
    "data_dir": (Annotated[Path | None, DATA_DIR], None),
    "download": (Annotated[bool, DOWNLOAD], False),
    "outside": (Annotated[list[str] | None, OUTSIDE], None),
    "hold": (Annotated[Hold, HOLD], "auto"),
    "cache": (Annotated[Path | None, CACHE], None),
    "skip_broken": (Annotated[bool, SKIP], False),
}


def gathered(*, outside: list[str] | None, **more: Any) -> ReadOptions:
    """How to read, from the options."""
    return ReadOptions(outside=tuple(outside or ()), **more)


READING = Group(OPTIONS, gathered)
reads = takes(read_options=READING)
