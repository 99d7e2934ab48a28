"""Images to vectors: `drpl encode`, `drpl.encode`, and every data set that is read as features."""

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from drpl.data.address import split_address
from drpl.data.dataset import Dataset, DatasetSplits, Encoding, statistics
from drpl.data.images import Broken, Images, TensorImages, attempt, list_files, redecode, trace
from drpl.data.pixel_store import CACHE, check_broken, fits
from drpl.data.prefetch import read_ahead
from drpl.data.sources import ReadOptions, load
from drpl.encoders.encoder import Encoder, load_encoder
from drpl.encoders.own_features import is_features_file, with_features
from drpl.encoders.ray_engine import Made, encode_on_cluster, encode_views
from drpl.encoders.store import HALF, FeatureStore, StoredVectors, make_all_keys
from drpl.errors import ConfigError, DataError
from drpl.files import open_atomic, slugify

PART = 256  # images that are stored together: what a kill loses at most
WRITTEN = 4096  # vectors that are written together
LONGEST = 60  # signs of an encoder's name in that of its store


def encode(
    data: str | DatasetSplits,
    encoder: str = "lite0",
    *,
    size: int | None = None,
    mirrored: bool = False,
    read_options: ReadOptions | None = None,
) -> DatasetSplits:
    """The data set with the vectors that a pretrained network makes of its images.

    `encoder` is a name from `drpl list encoders`, which sees squares of `size` pixels a side
    (default: its own). With `mirrored` each vector is the mean of an image's and its mirror
    image's. What was encoded before is taken from the store in `.drpl-cache`.
    """
    options = replace(read_options or ReadOptions(), features=encoder, mirrored=mirrored)
    options = replace(options, size=size or options.size)
    if isinstance(data, str):
        return load(data, options)
    if len(data.train.images.shape) != 3:
        raise DataError(f"{data.name} holds vectors; there are no images to encode")
    return encode_splits(data, options)


def encode_splits(data: DatasetSplits, read_options: ReadOptions) -> DatasetSplits:
    """The data with vectors in place of the images, as the options ask."""
    name = read_options.features
    if name is None:
        raise ConfigError("no encoder was named")
    if is_features_file(name):
        return with_features(data, Path(name))
    folder = (read_options.cache or CACHE) / "features"
    parts = {"train": data.train, "test": data.test, "outside": data.outside}
    job = _Job(name, folder, read_options, sum(len(part) for part in parts.values() if part))
    encoder = job.encoder
    found = {name: part and job.encode(part) for name, part in parts.items()}
    train = found["train"]
    if train is None:
        raise DataError(f"{data.name} has no images for training")
    mean, std = statistics(train.images)
    return replace(
        data,
        train=train,
        test=found["test"],
        outside=found["outside"],
        mean=mean,
        std=std,
        notes=data.notes + tuple(job.notes),
        origin=data.origin
        and replace(data.origin, read_options=replace(read_options, progress=None, engine="local")),
        encoding=Encoding(encoder.name, encoder.size, read_options.mirrored, encoder.weights),
    )


def count_missing(data: DatasetSplits, read_options: ReadOptions) -> int:
    """How many images have no vectors in the store, of those that the options ask for."""
    folder = (read_options.cache or CACHE) / "features"
    job = _Job(read_options.features or "", folder, read_options, 0)
    parts = [part for part in (data.train, data.test, data.outside) if part]
    return sum(len(job.find_missing(make_all_keys(part.images))) for part in parts)


class _Job:
    """The encoding of one data set, part after part."""

    def __init__(self, name: str, folder: Path, read_options: ReadOptions, total: int) -> None:
        self.load = partial(  # also for other machines
            load_encoder,
            name,
            size=read_options.size,
            download=read_options.download,
            cache=folder,
        )
        self.encoder: Encoder = self.load()
        self.read_options = read_options
        self.done, self.total, self.notes = 0, total, list[str]()
        stem = f"{slugify(name)[-LONGEST:]}-{self.encoder.size}-{self.encoder.weights}"
        views = {stem: False} | ({f"{stem}-mirrored": True} if read_options.mirrored else {})
        self.stores = [
            (FeatureStore(folder, store, self.encoder.dim), mirrored)
            for store, mirrored in views.items()
        ]

    def encode(self, dataset: Dataset) -> Dataset:
        """A part with vectors for images, without those that cannot be read."""
        keys = make_all_keys(dataset.images)
        missing = self.find_missing(keys)
        self._advance(len(keys) - len(missing))
        unread = self._fill(dataset.images, keys, missing) if len(missing) else {}
        broken = {i: unread[key] for i, key in enumerate(keys) if key in unread}
        check_broken(broken, len(dataset), self.read_options)
        self.notes += [f"left out {why}" for why in broken.values()]
        whole = torch.tensor([i for i in range(len(keys)) if i not in broken])
        left = dataset.select(whole) if broken else dataset
        rows = [store.find([keys[i] for i in whole.tolist()]) for store, _ in self.stores]
        paths = [store.rows_path for store, _ in self.stores]
        made_of, sources = trace(left.images), list(zip(paths, rows, strict=True))
        vectors: Images = StoredVectors(sources, self.encoder.dim, made_of)
        if fits(vectors, self.read_options):
            vectors = TensorImages(vectors.load(torch.arange(len(vectors))), made_of)
        return replace(left, images=vectors, pictures=left.images)

    def _fill(self, images: Images, keys: list[bytes], missing: Tensor) -> dict[bytes, str]:
        """Encode what is missing, and store it part by part; the keys of what cannot be read."""
        unread: dict[bytes, str] = {}
        with ExitStack() as locks:
            for store, _ in self.stores:
                locks.enter_context(store.locked())
            left = self.find_missing(keys)  # another process may have done some
            self._advance(len(missing) - len(left))
            lacking = [keys[i] for i in left.tolist()]
            todo = [(store, view) for store, view in self.stores if (store.find(lacking) < 0).any()]
            parts = left.split(PART) if len(left) else ()
            for index, vectors, bad in self._encode_parts(images, parts, [v for _, v in todo]):
                unread |= {keys[i]: why for i, why in bad.items()}
                own = [keys[i] for i in index.tolist() if i not in bad]
                for (store, _), made in zip(todo, vectors, strict=True):
                    store.add(own, made)
                self._advance(len(index))
                if bad:
                    self._check_folders(images, bad)
        return unread

    def _encode_parts(
        self, images: Images, parts: Sequence[Tensor], views: list[bool]
    ) -> Iterator[Made]:
        """Each part, in any order, with the vectors of its views and what cannot be read."""
        if self.read_options.engine == "ray":
            yield from encode_on_cluster(self.load, self.encoder, images, parts, views)
            return
        shown = redecode(images, self.encoder.size)
        for index, (pixels, bad) in read_ahead(lambda part: attempt(shown, part), parts, 2):
            yield index, encode_views(self.encoder, pixels, views), bad

    def _check_folders(self, images: Images, broken: Broken) -> None:
        """Raise if files cannot be read because their folder is gone: that is no broken file."""
        for file in list_files(images, torch.tensor(list(broken))) or ():
            folder = Path(split_address(file)[0]).parent
            if not folder.is_dir():
                raise DataError(
                    f"the folder {folder} is no longer there; what was encoded is kept, so run the "
                    "same command again when it is back"
                )

    def find_missing(self, keys: list[bytes]) -> Tensor:
        """Which images have no vector yet, each image once. [M]"""
        lacking = np.any([store.find(keys) < 0 for store, _ in self.stores], axis=0)
        first = {keys[i]: i for i in reversed(lacking.nonzero()[0].tolist())}
        return torch.tensor(sorted(first.values()), dtype=torch.int64)

    def _advance(self, count: int) -> None:
        self.done += count
        if self.read_options.progress:
            self.read_options.progress(min(self.done, self.total), self.total)


def check_ending(path: Path) -> None:
    """Raise unless features can be written to a file of that name."""
    if path.suffix not in (".npz", ".npy"):
        raise ConfigError(f"{path} should end in .npz, or in .npy for the vectors alone")


def write_features(data: DatasetSplits, path: Path) -> None:
    """Write encoded data as `.npz`, which `drpl train` takes, or their vectors alone as `.npy`."""
    check_ending(path)
    with open_atomic(path) as file:
        if path.suffix == ".npy":
            _write_vectors(file, data.train.images)
            return
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in _list_arrays(data):
                entry = zipfile.ZipInfo(f"{name}.npy")  # with no date: equal data, equal bytes
                with archive.open(entry, "w", force_zip64=True) as member:
                    if isinstance(content, np.ndarray):
                        np.lib.format.write_array(member, content, allow_pickle=False)
                    else:
                        _write_vectors(member, content)


def _list_arrays(data: DatasetSplits) -> Iterator[tuple[str, "np.ndarray | Images"]]:
    """The arrays that `readers.arrays` reads, by name."""
    for ending, part in (("", data.train), ("_test", data.test)):
        if part is None:
            continue
        yield f"x{ending}", part.images
        yield f"y{ending}", part.labels.numpy()
        if part.tags is not None:
            yield f"tags{ending}", part.tags.numpy()
        files = list_files(part.pictures, torch.arange(len(part))) if part.pictures else None
        if files:
            yield f"paths{ending}", np.array([os.path.realpath(file) for file in files])
    yield "classes", np.array(data.train.classes)
    if truth := data.train.truth:
        yield "y_true", torch.where(truth.in_distribution, truth.labels, -1).numpy()
    if data.encoding:
        yield "encoding", np.array(json.dumps(asdict(data.encoding)))


def _write_vectors(file: IO[bytes], images: Images) -> None:
    """Vectors as float16 in numpy's format, part by part."""
    shape = (len(images), *images.shape)
    about = {"descr": HALF.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    for index in torch.arange(len(images)).split(WRITTEN):
        file.write(images.load(index).numpy().astype(HALF).tobytes())
