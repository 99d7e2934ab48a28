"""Data sets by name or by path."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from drpl.catalogue import Entry, find
from drpl.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from drpl.data.dataset import Data

DATASETS = {
    "digits": Entry("drpl.data.digits:digits", "1,797 scanned digits of 8 x 8 pixels, embedded"),
    "cifar10": Entry("drpl.data.cifar:cifar10", "CIFAR-10 from its official python files"),
    "cifar100": Entry("drpl.data.cifar:cifar100", "CIFAR-100, fine labels, likewise"),
    "cifar10n": Entry(
        "drpl.data.humans:cifar10n",
        "CIFAR-10 with human labels: cifar10n:worse_label (default), :aggre_label, :random_label1",
    ),
    "cifar100n": Entry(
        "drpl.data.humans:cifar100n", "CIFAR-100 with human labels: cifar100n:noisy_label"
    ),
    "imagenet32": Entry(
        "drpl.data.imagenet32:imagenet32",
        "ImageNet32, the paper's 100 classes; others: imagenet32:seed=7,classes=50 or :ids=FILE",
    ),
    "imagenet64": Entry("drpl.data.imagenet32:imagenet64", "ImageNet64, likewise"),
    "fashion-mnist": Entry("drpl.data.idx:fashion_mnist", "Fashion-MNIST from its idx files"),
    "webvision": Entry(
        "drpl.data.webvision:webvision",
        "WebVision 1.0, first 50 classes; webvision:google for its Google images only",
    ),
}
VARIED = ("cifar10n", "cifar100n", "imagenet32", "imagenet64", "webvision")  # may be name:variant
SOURCES = {
    "FOLDER": "a folder of images with a sub-folder for each class, or of one of these sets' files",
    "FILE.npz": "arrays x and y (and x_test, y_test, y_true, classes)",
    "FILE.csv": "a list with the columns path, label and perhaps split (train, test, val)",
    "FILE.parquet": "the same list as a Parquet file",
}
FOLDERS = {  # what a folder must have to be a set in files of its own kind, and what reads it
    ("train_data_batch_*",): "drpl.data.imagenet32:read",
    ("data_batch_*",): "drpl.data.cifar:read10",
    ("train", "test", "meta"): "drpl.data.cifar:read100",
    ("*-idx3-ubyte*",): "drpl.data.idx:read",
    ("info/train_filelist_*.txt",): "drpl.data.webvision:read",
}
FILES = {
    ".npz": "drpl.data.arrays:npz",
    ".csv": "drpl.data.listing:listing",
    ".parquet": "drpl.data.listing:listing",
}


Hold = Literal["auto", "memory", "cache", "files"]


@dataclass(frozen=True)
class Reading:
    """How a data set is read; what does not concern it is passed over."""

    size: int | None = None  # pixels a side that images are scaled to; None: as they suit or are
    limit: int | None = None  # images in each part, evenly over the classes; None: all
    data_dir: Path | None = None  # where named sets are; None: $DRPL_DATA, or else ./data
    download: bool = False  # whether a named set that is not there may be fetched
    outside: tuple[str, ...] = ()  # classes that become the source of out-of-distribution noise
    variant: str = ""  # what follows the colon in name:variant
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
    """The data set of that name (or `name:variant`), or the one at that path."""
    from drpl.data.aside import set_aside
    from drpl.data.dataset import Origin, check_every_class
    from drpl.data.reduced import reduced

    reading = reading or Reading()
    name, _, variant = what.partition(":")
    if name in DATASETS:
        if variant and name not in VARIED:
            raise DataError(f"{name} has no variants; leave {variant!r} out")
        data = find("data set", name, DATASETS).load()(replace(reading, variant=variant))
    else:
        path = Path(what)
        data = reader(path)(path, reading)
    check_every_class(data.train.labels, data.train.classes)
    data = reduced(set_aside(data, reading.outside), reading.size, reading.limit)
    return replace(data, origin=Origin(what, reading))


def reader(path: Path) -> "Callable[[Path, Reading], Data]":
    """What reads the file or folder at a path."""
    if path.is_dir():
        for signs, target in FOLDERS.items():
            if all(any(found.is_file() for found in path.glob(sign)) for sign in signs):
                return Entry(target, "").load()  # type: ignore[no-any-return]
        return Entry("drpl.data.folder:folder", "").load()  # type: ignore[no-any-return]
    if path.is_file() and path.suffix.lower() in FILES:
        return Entry(FILES[path.suffix.lower()], "").load()  # type: ignore[no-any-return]
    if path.exists():
        raise DataError(f"{path} is neither a folder of images nor one of {', '.join(FILES)}")
    if path.suffix or len(path.parts) > 1:
        raise DataError(f"there is no file or folder {path}")
    raise DataError(
        f"no data set, file or folder is named {str(path)!r}; {did_you_mean(str(path), DATASETS)}"
    )
