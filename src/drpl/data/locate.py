"""Where the files of named data sets are."""

import os
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from drpl.data.download import obtain
from drpl.data.sources import ReadOptions
from drpl.errors import DataError
from drpl.files import explain_write_errors


@dataclass(frozen=True)
class Place:
    """Where a set is in the data folder, or that folder itself, and what tells that it is there."""

    sign: str
    folders: tuple[str, ...]
    url: str = ""  # of an archive of the first folder, if it can be fetched
    md5: str = ""


CIFAR = "https://www.cs.toronto.edu/~kriz/"
PLACES = {
    "cifar10": Place(
        "data_batch_*",
        ("cifar-10-batches-py",),
        f"{CIFAR}cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
    ),
    "cifar100": Place(
        "meta",
        ("cifar-100-python",),
        f"{CIFAR}cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
    ),
    "cifar10n": Place("CIFAR-10_human.pt", ("cifar-10n",)),
    "cifar100n": Place("CIFAR-100_human.pt", ("cifar-100n",)),
    "imagenet32": Place("train_data_batch_*", ("imagenet32",)),
    "imagenet64": Place("train_data_batch_*", ("imagenet64",)),
    # Debian's package has it in /usr/share/datasets.
    "fashion-mnist": Place("train-images-idx3-ubyte*", ("fashion-mnist", "FashionMNIST/raw")),
    "webvision": Place("info/train_filelist_*.txt", ("webvision",)),
}


def locate(name: str, read_options: ReadOptions) -> Path:
    """The folder with the files of a named set, which are fetched if that is asked for."""
    place = PLACES[name]
    home = read_options.data_dir or Path(os.environ.get("DRPL_DATA") or "data")
    roots = [home / folder for folder in (*place.folders, ".")]

    def find() -> Path | None:
        return next((root for root in roots if any(root.glob(place.sign))), None)

    if not find() and read_options.download and place.url:
        with explain_write_errors(home):
            home.mkdir(parents=True, exist_ok=True)
            with FileLock(home / f".{place.folders[0]}.lock"):
                if not find():  # another process may have fetched it meanwhile
                    obtain(place.url, place.md5, roots[0])
    if found := find():
        return found
    way = "get it from its makers and put it there" if read_options.download else "put it there"
    fetch = ", or fetch it with --download" if place.url else ""
    raise DataError(
        f"{name} wants {place.folders[0]}/{place.sign} in the folder {home}, which has none; "
        f"{way}, or name another folder with --data-dir or DRPL_DATA{fetch}"
    )
