"""Data sets of other libraries: torch's map-style ones and those of Hugging Face."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.decoding import is_grey, to_picture, to_square, upright
from drpl.data.readers.arrays import arrays
from drpl.errors import DataError

Pairs = Iterable[tuple[Any, Any]]


def from_torch(
    dataset: Any,
    classes: Sequence[str] | None = None,
    *,
    test: Any = None,
    size: int | None = None,
    name: str = "torch",
) -> DatasetSplits:
    """Any map-style data set of torch whose items are an image (or vector) and a label.

    Images are pictures of Pillow, arrays or tensors, and are read once: leave random transforms
    and normalisation to the training. `size` is needed where pictures differ in theirs.
    """
    names = classes or getattr(dataset, "classes", None)
    splits = [split for split in (dataset, test) if split is not None]
    parts = [map(split.__getitem__, range(len(split))) for split in splits]
    return _read_once(parts, names, size, name)


def from_huggingface(
    dataset: Any,
    image: str = "image",
    label: str = "label",
    *,
    test: Any = None,
    size: int | None = None,
    name: str = "huggingface",
) -> DatasetSplits:
    """A `datasets.Dataset` of Hugging Face; `image` and `label` are its columns."""
    splits = [split for split in (dataset, test) if split is not None]
    for split in splits:
        if not {image, label} <= set(split.column_names):
            raise DataError(
                f"the data set has the columns {', '.join(split.column_names)}; say which are "
                "meant with image=... and label=..."
            )
    names = getattr(dataset.features[label], "names", None)
    parts = [((row[image], row[label]) for row in split) for split in splits]
    return _read_once(parts, names, size, name)


def to_huggingface(data: Dataset) -> Any:
    """The same as a `datasets.Dataset` of Hugging Face, in memory.

    Its columns are `image`, or `features` where the data are vectors, and `label`.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(
            "that needs the package datasets, which is not here: pip install 'drpl[huggingface]'"
        ) from None
    if len(set(data.classes)) < len(data.classes):
        raise DataError("two classes have the same name, which a data set of Hugging Face forbids")
    is_image = len(data.images.shape) == 3
    values: list[Any] = []
    for part in torch.arange(len(data)).split(512):
        loaded = data.images.load(part)
        values += map(_encode_png, loaded) if is_image else loaded.tolist()
    if is_image:
        paths = data.paths or [""] * len(data)
        values = [{"bytes": v, "path": path or None} for v, path in zip(values, paths, strict=True)]
    name = "image" if is_image else "features"
    kind = datasets.Image() if is_image else datasets.Sequence(datasets.Value("float32"))
    features = {name: kind, "label": datasets.ClassLabel(names=list(data.classes))}
    columns = {name: values, "label": data.labels.tolist()}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def _encode_png(pixels: torch.Tensor) -> bytes:
    file = io.BytesIO()
    Image.fromarray(to_picture(pixels)).save(file, "PNG")
    return file.getvalue()


def _read_once(
    parts: Sequence[Pairs], classes: Sequence[str] | None, size: int | None, name: str
) -> DatasetSplits:
    """All parts in memory."""
    found = [array for pairs in parts for array in _stack(pairs, size)]
    return arrays(*found, classes=classes, name=name)


def _stack(pairs: Pairs, size: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """All images and all labels of one part."""
    images: list[NDArray[Any]] = []
    labels: list[Any] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"item {len(images)} should be an image and a label, not {type(pair)}")
        images.append(_to_array(pair[0], size))
        labels.append(pair[1].item() if isinstance(pair[1], torch.Tensor) else pair[1])
        if images[-1].shape != images[0].shape:
            raise DataError(
                f"image {len(images) - 1} has shape {images[-1].shape}, image 0 has "
                f"{images[0].shape}; bring all to one size (size=...) and number of colours"
            )
    if not images:
        raise DataError("the data set has no images")
    return np.stack(images), np.asarray(labels)


def _to_array(image: Any, size: int | None) -> NDArray[Any]:
    """One image or vector as an array."""
    if isinstance(image, Image.Image):
        if size:
            return to_square(image, size, 1 if is_grey(image) else 3)
        return np.asarray(upright(image))
    if isinstance(image, torch.Tensor):
        return image.detach().cpu().numpy()
    return np.asarray(image)
