"""Where the files of named data sets are."""

import os
from pathlib import Path

from drpl.data.download import Archive, obtain
from drpl.data.sources import ReadOptions
from drpl.distributed import barrier, rank
from drpl.errors import DataError


def data_dir(read_options: ReadOptions) -> Path:
    """The folder asked for, or the environment's, or ./data."""
    return read_options.data_dir or Path(os.environ.get("DRPL_DATA") or "data")


def found(
    read_options: ReadOptions,
    name: str,
    places: tuple[str, ...],
    sign: str,
    archive: Archive | None = None,
) -> Path:
    """The first of `places` in the data folder (`.` is the folder itself) that has `sign`."""
    home = data_dir(read_options)
    candidates = [home / place for place in places]
    if read_options.download and archive:
        if rank() == 0 and not any(any(candidate.glob(sign)) for candidate in candidates):
            obtain(archive, home)
        barrier()  # the other processes look when the first one has fetched it
    for candidate in candidates:
        if any(candidate.glob(sign)):
            return candidate
    way = "get it from its makers and put it there" if read_options.download else "put it there"
    fetch = ", or fetch it with --download" if archive else ""
    raise DataError(
        f"{name} wants {places[0]}/{sign} in the folder {home}, which has none; {way}, or "
        f"name another folder with --data-dir or DRPL_DATA{fetch}"
    )
