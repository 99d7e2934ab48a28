"""Data sets by name or by path."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from drpl.catalogue import Entry, find
from drpl.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from drpl.data.dataset import Data

DATASETS = {
    "digits": Entry("drpl.data.digits:digits", "1,797 scanned digits of 8 x 8 pixels, embedded"),
}
SOURCES = {
    "FOLDER": "a folder of images with a sub-folder for each class",
    "FILE.npz": "arrays x and y (and x_test, y_test, y_true, classes)",
}


Hold = Literal["auto", "memory", "cache", "files"]


@dataclass(frozen=True)
class Reading:
    """How a data set is read; what does not concern it is passed over."""

    size: int | None = None  # pixels a side that files are scaled to; None: by the images
    hold: Hold = "auto"  # where the pixels of files are kept; auto: in memory if they fit
    cache: Path | None = None  # folder of the pixels kept on disk; None: .drpl-cache
    memory: int | None = None  # bytes that pixels may take in memory; None: half of what is free
    skip_broken: bool = False  # whether files that cannot be read are left out

    def __post_init__(self) -> None:
        if self.hold not in get_args(Hold):
            raise DataError(
                f"unknown hold {self.hold!r}; {did_you_mean(self.hold, get_args(Hold))}"
            )


def load(what: str, reading: Reading | None = None) -> "Data":
    """The data set of that name, or the one at that path."""
    reading = reading or Reading()
    if what in DATASETS:
        return find("data set", what, DATASETS).load()(reading)  # type: ignore[no-any-return]
    path = Path(what)
    if path.is_dir():
        from drpl.data.folder import folder

        return folder(path, reading)
    if path.is_file() and path.suffix == ".npz":
        from drpl.data.arrays import npz

        return npz(path)
    if path.exists():
        raise DataError(f"{what} is neither a folder of images nor an .npz file")
    if path.suffix or len(path.parts) > 1:
        raise DataError(f"there is no file or folder {what}")
    raise DataError(
        f"no data set, file or folder is named {what!r}; {did_you_mean(what, DATASETS)}"
    )
