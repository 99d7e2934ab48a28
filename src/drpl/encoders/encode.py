"""Images to vectors: `drpl encode`, `drpl.encode`, and every data set that is read as features."""

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from drpl.data.dataset import Dataset, DatasetSplits, Encoding, statistics
from drpl.data.images import Broken, Images, TensorImages, attempt, read_ahead, redecode
from drpl.data.pixel_store import CACHE, check_broken, fits
from drpl.data.sources import ReadOptions, load
from drpl.encoders.encoder import Encoder, load_encoder
from drpl.encoders.own_features import is_features_file, with_features
from drpl.encoders.store import HALF, FeatureStore, StoredVectors, make_keys
from drpl.errors import ConfigError, DataError
from drpl.files import open_atomic, slugify

PART = 256  # images that are stored together: what a kill loses at most
LOOKED_UP = 4096  # images whose keys are made together


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
    encoder = load_encoder(
        name, size=read_options.size, download=read_options.download, cache=folder
    )
    parts = {"train": data.train, "test": data.test, "outside": data.outside}
    job = _Job(encoder, folder, read_options, sum(len(part) for part in parts.values() if part))
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
        and replace(data.origin, read_options=replace(read_options, progress=None)),
        encoding=Encoding(encoder.name, encoder.size, read_options.mirrored, encoder.weights),
    )


class _Job:
    """The encoding of one data set, part after part."""

    def __init__(
        self, encoder: Encoder, folder: Path, read_options: ReadOptions, total: int
    ) -> None:
        self.encoder, self.read_options = encoder, read_options
        self.done, self.total, self.notes = 0, total, list[str]()
        name = f"{slugify(encoder.name)}-{encoder.size}-{encoder.weights}"
        plain: Callable[[Tensor], Tensor] = lambda pixels: pixels  # noqa: E731
        self.stores = [(FeatureStore(folder, name, encoder.dim), plain)]
        if read_options.mirrored:
            mirror = FeatureStore(folder, f"{name}-mirrored", encoder.dim)
            self.stores.append((mirror, lambda pixels: pixels.flip(3)))

    def encode(self, dataset: Dataset) -> Dataset:
        """A part with vectors for images, without those that cannot be read."""
        every = torch.arange(len(dataset)).split(LOOKED_UP)
        keys = [key for index in every for key in make_keys(dataset.images, index)]
        missing = self._find_missing(keys)
        self._advance(len(keys) - len(missing))
        broken = self._fill(dataset.images, keys, missing) if len(missing) else {}
        check_broken(broken, len(dataset), self.read_options)
        self.notes += [f"left out {why}" for why in broken.values()]
        whole = torch.tensor([i for i in range(len(keys)) if i not in broken])
        left = dataset.select(whole) if broken else dataset
        rows = [store.find([keys[i] for i in whole.tolist()]) for store, _ in self.stores]
        paths = [store.rows_path for store, _ in self.stores]
        vectors: Images = StoredVectors(list(zip(paths, rows, strict=True)), self.encoder.dim)
        if fits(vectors, self.read_options):
            vectors = TensorImages(vectors.load(torch.arange(len(vectors))))
        return replace(left, images=vectors, pictures=left.images)

    def _fill(self, images: Images, keys: list[bytes], missing: Tensor) -> Broken:
        """Encode what is missing, and store it part by part; what cannot be read."""
        shown, broken = redecode(images, self.encoder.size), Broken()
        with ExitStack() as locks:
            for store, _ in self.stores:
                locks.enter_context(store.locked())
            left = self._find_missing(keys)  # another process may have done some
            self._advance(len(missing) - len(left))
            for index, (pixels, bad) in read_ahead(
                lambda part: attempt(shown, part), left.split(PART), 2
            ):
                broken |= bad
                own = [keys[i] for i in index.tolist() if i not in bad]
                for store, turn in self.stores:
                    if len(own) and (store.find(own) < 0).any():
                        store.add(own, self.encoder.encode(turn(pixels)))
                self._advance(len(index))
        return broken

    def _find_missing(self, keys: list[bytes]) -> Tensor:
        """Which images have no vector yet, each image once. [M]"""
        lacking = np.any([store.find(keys) < 0 for store, _ in self.stores], axis=0)
        first = {keys[i]: i for i in reversed(lacking.nonzero()[0].tolist())}
        return torch.tensor(sorted(first.values()), dtype=torch.int64)

    def _advance(self, count: int) -> None:
        self.done += count
        if self.read_options.progress:
            self.read_options.progress(min(self.done, self.total), self.total)


def write_features(data: DatasetSplits, path: Path) -> None:
    """Write encoded data as `.npz`, which `drpl train` takes, or their vectors alone as `.npy`."""
    if path.suffix not in (".npz", ".npy"):
        raise ConfigError(f"{path} should end in .npz, or in .npy for the vectors alone")
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
        if part.paths:
            root = Path(data.origin.what) if data.origin else Path()
            root = root if root.is_dir() else root.parent
            yield f"paths{ending}", np.array([str((root / p).resolve()) for p in part.paths])
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
    for index in torch.arange(len(images)).split(LOOKED_UP):
        file.write(images.load(index).numpy().astype(HALF).tobytes())
