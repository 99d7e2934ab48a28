"""Data sets by name or by path."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from drpl.errors import DataError, did_you_mean
from drpl.registry import DATASETS, ENCODE, Entry

if TYPE_CHECKING:
    from drpl.data.dataset import Dataset, DatasetSplits

VARIED = {  # sets that may be asked for as name:variant, and their variants by default
    "cifar10n": "worse_label",
    "cifar100n": "noisy_label",
    "imagenet32": "",
    "imagenet64": "",
    "webvision": "",
}
SOURCES = {
    "FOLDER": "a folder of images with a sub-folder for each class, or of one of these sets' files",
    "FILE.npz": "arrays x and y (and x_test, y_test, y_true, classes)",
    "FILE.csv": "a list with a column of paths, one of labels, perhaps split, and any others",
    "FILE.tsv": "the same list with tabs",
    "FILE.jsonl": "the same list with a JSON object on each line",
    "FILE.parquet": "the same list as a Parquet file",
    "FILE.tar": "a shard of WebDataset, or a folder of them",
    "FILE.json": "boxes in COCO's format, each an image",
    "VOC FOLDER": "boxes in Pascal VOC's format: Annotations and JPEGImages",
    "HF FOLDER": "a data set of Hugging Face: saved to disk, or images with metadata.csv",
}
FOLDERS = {  # what a folder must have to be a set in files of its own kind, and what reads it
    ("train_data_batch_*",): "drpl.data.readers.imagenet:read",
    ("data_batch_*",): "drpl.data.readers.cifar:read_cifar10",
    ("train", "test", "meta"): "drpl.data.readers.cifar:read_cifar100",
    ("*-idx3-ubyte*",): "drpl.data.readers.idx:read",
    ("info/train_filelist_*.txt",): "drpl.data.readers.webvision:read",
    ("dataset_info.json", "state.json"): "drpl.data.readers.arrow:read",
    ("dataset_dict.json",): "drpl.data.readers.arrow:read",
    ("Annotations/*.xml",): "drpl.data.readers.voc:read",
    ("*.tar",): "drpl.data.readers.shards:read",
    ("train/*.tar",): "drpl.data.readers.shards:read",
    ("metadata.csv",): "drpl.data.readers.metadata:read",
    ("metadata.jsonl",): "drpl.data.readers.metadata:read",
    ("train/metadata.csv",): "drpl.data.readers.metadata:read",
    ("train/metadata.jsonl",): "drpl.data.readers.metadata:read",
}
FOLDER = "drpl.data.readers.folder:folder"  # any other one,
PATTERN = "drpl.data.readers.pattern:read"  # where its files' names hold the labels
FILES = {
    ".npz": "drpl.data.readers.arrays:read_npz",
    ".tar": "drpl.data.readers.shards:read",
    ".json": "drpl.data.readers.coco:read",
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".parquet"), "drpl.data.readers.list:read"),
}
LABELLING = (  # options that decide which images are read, and as what
    *("path_column", "label_column", "label_separator", "label_pattern", "classes", "depth"),
)


Hold = Literal["auto", "memory", "cache", "files"]
DEEPEST = 32  # folders inside of each other
Engine = Literal["local", "ray"]
Progress = Callable[[int, int], None]  # (images that are done, all of them)


@dataclass(frozen=True)
class ReadOptions:
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
    features: str | None = None  # an encoder that makes vectors of the images; `size` is then its
    mirrored: bool = False  # whether features are means over an image and its mirror image
    progress: Progress | None = field(default=None, compare=False)  # called while encoding
    engine: Engine = field(default="local", compare=False)  # who encodes: this process, a cluster
    lazy: bool = False  # whether files are left unread, as for an encoder that decodes them itself
    path_column: str | None = None  # of a list: where the images are; None: by common names
    label_column: str | None = None  # likewise, what they are labelled
    label_separator: str | None = None  # between several labels of an image, or `json`; "": one
    label_pattern: str | None = None  # regular expression that finds the label in a file's path
    classes: tuple[str, ...] = ()  # those to read; none: all
    depth: int | None = None  # of a folder: how far down the folders are that name classes
    several: bool = False  # whether images may have several labels each, which few can judge

    def describe_labels(self) -> dict[str, Any]:
        """What was asked for of which images are read, and as what; by the options' names."""
        asked = {name: getattr(self, name) for name in LABELLING}
        return {name: value for name, value in asked.items() if value not in (None, ())}

    def __post_init__(self) -> None:
        for name in ("classes", "outside"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.data_dir is not None:
            object.__setattr__(self, "data_dir", Path(self.data_dir))
        if self.depth is not None and not 1 <= self.depth <= DEEPEST:
            raise DataError(f"the depth should be from 1 to {DEEPEST}, got {self.depth}")
        if self.hold not in get_args(Hold):
            raise DataError(
                f"unknown hold {self.hold!r}; {did_you_mean(self.hold, get_args(Hold))}"
            )


def _check_named(what: str) -> None:
    """Raise for an empty text, which as a path would be the folder that one is in."""
    if not what:
        raise DataError("name a data set, a file or a folder; this folder is ./")


def load(what: str, read_options: ReadOptions | None = None) -> "DatasetSplits":
    """The data set of that name (or `name:variant`), or the one at that path."""
    from drpl.data.conflicts import find_conflicts
    from drpl.data.dataset import Origin, check_every_class
    from drpl.data.locate import PLACES, locate

    _check_named(what)
    read_options = read_options or ReadOptions()
    if read_options.features:
        read_options = replace(read_options, lazy=True)
    name, _, variant = what.partition(":")
    if name in DATASETS:
        if variant and name not in VARIED:
            raise DataError(f"{name} has no variants; leave {variant!r} out")
        variant = variant or VARIED.get(name, "")
        root = locate(name, read_options) if name in PLACES else Path()
        data: DatasetSplits = DATASETS[name].load()(root, replace(read_options, variant=variant))
        data = replace(data, name=f"{name}:{variant}" if variant else name)
    else:
        reader = _find_reader(Path(what))
        if reader == FOLDER and read_options.label_pattern:
            reader = PATTERN
        data = Entry(reader, "").load()(Path(what), read_options)
    data = _select_classes(data, read_options.classes)
    _check_tags(data, what, read_options)
    check_every_class(data.train.entries, data.train.classes)
    data = data.hold_out(read_options.outside)
    data = data.limit(read_options.limit) if read_options.limit else data
    if read_options.features:
        if len(data.train.images.shape) != 3:
            raise DataError(f"{what} holds vectors; there are no images to make features of")
        listed = data.train.entries
        data = ENCODE.load()(data, read_options)
        check_every_class(data.train.entries, data.train.classes, listed)
    elif read_options.size and not read_options.lazy:
        data = data.resize(read_options.size)
    data = replace(data, notes=(*data.notes, *find_conflicts(data)))
    origin = Origin(what, replace(read_options, progress=None, engine="local", lazy=False))
    return replace(data, origin=origin)


def _select_classes(data: "DatasetSplits", names: tuple[str, ...]) -> "DatasetSplits":
    """The classes that were asked for, where a reader has not chosen them itself."""
    if not names or set(names) >= set(data.train.classes):
        return data
    if data.train.tags is not None:
        raise DataError("classes can be chosen of a list, not of arrays with several labels each")
    train, test = data.train.select_classes(names), data.test
    gone = len(data.train) - len(train)
    what = "1 training image" if gone == 1 else f"{gone:,} training images"
    note = f"left out {what} of classes that were not chosen"
    return replace(
        data,
        train=train,
        test=test.select_classes(names) if test and test.has_any(names) else None,
        notes=(*data.notes, note),
    )


def _check_tags(data: "DatasetSplits", what: str, read_options: ReadOptions) -> None:
    """Raise for several labels an image, unless whoever reads them can judge such labels."""
    if data.train.tags is None:
        return
    if not read_options.several:
        raise DataError(
            f"{what} gives images several labels each, which `drpl clean` judges one by one, and "
            'training cannot take; with --label-separator "" each cell is one label'
        )
    if read_options.outside:
        raise DataError("classes cannot be set aside where images have several labels each")


def check_source(what: str) -> None:
    """Raise unless there is a data set of that name, or something to read at that path."""
    _check_named(what)
    if what.partition(":")[0] not in DATASETS:
        _find_reader(Path(what))


def is_plain_folder(path: Path) -> bool:
    """Whether a folder is no set of a kind of its own."""
    return path.is_dir() and _find_reader(path) == FOLDER


def with_ood(
    data: "DatasetSplits", what: "str | DatasetSplits | Dataset | None"
) -> "DatasetSplits":
    """The data with the training images of another set, if one is given, as `outside`."""
    if what is None:
        return data
    if not isinstance(what, str):
        return data.with_ood(what)
    shape, made = data.train.images.shape, data.encoding
    if made:
        options = ReadOptions(size=made.size, features=made.encoder, mirrored=made.mirrored)
    else:
        options = ReadOptions(size=shape[1] if len(shape) == 3 else None)
    other = load(what, options)
    return replace(data.with_ood(other), origin=data.origin and replace(data.origin, ood=what))


@contextmanager
def explain_data_errors(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes its reader raise into a sentence."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not in UTF-8; save it with that encoding") from error
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"cannot read {path}: {reason}") from error


def _find_reader(path: Path) -> str:
    """What reads the file or folder at a path, as `module:function`."""
    if path.is_dir():
        for signs, target in FOLDERS.items():
            if all(any(found.is_file() for found in path.glob(sign)) for sign in signs):
                return target
        return FOLDER
    if path.is_file() and path.suffix.lower() in FILES:
        return FILES[path.suffix.lower()]
    if path.exists():
        raise DataError(f"{path} is neither a folder of images nor one of {', '.join(FILES)}")
    if path.suffix or len(path.parts) > 1:
        raise DataError(f"there is no file or folder {path}")
    raise DataError(
        f"no data set, file or folder is named {str(path)!r}; {did_you_mean(str(path), DATASETS)}"
    )
