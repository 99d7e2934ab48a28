"""Small files in the formats of the public data sets, and where the real ones are."""

import gzip
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from drpl.data.dataset import Dataset, in_memory

REAL = Path(
    os.environ.get("DRPL_TEST_DATA") or Path(__file__).parents[2].parent / "shared" / "data"
)
real_data = pytest.mark.skipif(
    not (REAL / "cifar-10-batches-py").is_dir(), reason="the real files are not here"
)


def numbered(count: int, classes: tuple[str, ...], first: int = 0) -> Dataset:
    """Images that carry their own number, so that one can see where they came from."""
    numbers = torch.arange(first, first + count)
    pixels = torch.stack([numbers // 256, numbers % 256], 1).to(torch.uint8).view(-1, 1, 1, 2)
    return in_memory(pixels, torch.arange(count) % len(classes), classes)


def shown(dataset: Dataset) -> torch.Tensor:
    """The numbers on all images."""
    pixels = dataset.images.load(torch.arange(len(dataset))).long().flatten(1)
    return pixels[:, 0] * 256 + pixels[:, 1]


def rows(count: int, side: int = 32, seed: int = 1) -> Any:
    """uint8 [count, 3 * side * side]."""
    return np.random.default_rng(seed).integers(0, 256, (count, 3 * side**2), dtype=np.uint8)


def dump(path: Path, content: object, protocol: int = 2) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol))


def make_cifar10(root: Path, batches: int = 5, each: int = 20) -> Path:
    names = [f"class {c}" for c in range(10)]
    dump(root / "batches.meta", {"label_names": names})
    for n in range(1, batches + 1):
        labels = [(k + n) % 10 for k in range(each)]
        dump(root / f"data_batch_{n}", {b"data": rows(each, seed=n), b"labels": labels})
    dump(root / "test_batch", {"data": rows(10, seed=9), "labels": list(range(10))})
    return root


def make_cifar100(root: Path) -> Path:
    dump(root / "meta", {"fine_label_names": [f"fine {c}" for c in range(100)]})
    for part in ("train", "test"):
        labels = [99 - c for c in range(100)]
        content = {"data": rows(100), "fine_labels": labels, "coarse_labels": [0] * 100}
        dump(root / part, content, 5)
    return root


def make_human(path: Path, **labels: object) -> Path:
    """A file as `torch.save` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        content = {name: np.array(values) for name, values in labels.items()}
        archive.writestr("archive/data.pkl", pickle.dumps(content, 2))
    return path


def make_imagenet(root: Path, labels: list[int], side: int = 8, batches: int = 10) -> Path:
    for n in range(1, batches + 1):
        content = {"data": rows(len(labels), side, n), "labels": labels, "mean": np.zeros(3)}
        dump(root / f"train_data_batch_{n}", content)
    dump(root / "val_data", {"data": rows(len(labels), side, 99), "labels": labels})
    return root


def idx_bytes(values: np.ndarray[Any, Any]) -> bytes:
    sizes = b"".join(size.to_bytes(4) for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def make_idx(root: Path, packed: bool = False, count: int = 30) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(1)
    for part in ("train", "t10k"):
        pixels = draws.integers(0, 256, (count, 9, 9))
        for kind, values in (("images-idx3", pixels), ("labels-idx1", np.arange(count) % 10)):
            content = idx_bytes(values)
            path = root / f"{part}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return root


def make_pictures(root: Path, names: list[str]) -> None:
    for k, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 10), (20 * k % 256, 90, 200)).save(root / name)


def make_webvision(root: Path) -> Path:
    (root / "info").mkdir(parents=True)
    lists: dict[str, list[str]] = {"train_filelist_google": [], "train_filelist_flickr": []}
    for k in range(6):
        for source in ("google", "flickr"):
            label = k % 3 if k < 5 else 77
            lists[f"train_filelist_{source}"].append(f"{source}/q{label:04}/{k}.jpg {label}")
    lists["val_filelist"] = [f"val{k}.jpg {k}" for k in range(4)]
    for name, lines in lists.items():
        (root / "info" / f"{name}.txt").write_text("\n".join(lines) + "\n")
        home = root / "val_images_256" if name == "val_filelist" else root
        make_pictures(home, [line.rpartition(" ")[0] for line in lines])
    synsets = "n1 tench, Tinca tinca\nn2 crane\nn3 crane, machine\n"
    (root / "info" / "synsets.txt").write_text(synsets)
    return root
