"""A corrupted data set on disk: labels, images, a manifest and a picture of what was done."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image

from drpl.data.dataset import Dataset, DatasetSplits, Truth
from drpl.errors import StorageError
from drpl.files import explain_write_errors, write_arrays, write_atomic, write_json
from drpl.noise.transition import realised_matrix
from drpl.report.noise_figure import draw_noise
from drpl.runs import execute as pipeline

SHOWN = 30  # corrupted samples in the picture


@dataclass(frozen=True)
class Roots:
    """The folders that the paths of a data set and of its outside start from, if any."""

    own: Path | None = None
    outside: Path | None = None


def corrupt(
    data: DatasetSplits,
    noise: str,
    out: Path,
    *,
    seed: int = 1,
    confusion: Path | None = None,
    roots: Roots | None = None,
) -> dict[str, Any]:
    """Write the data with noise to a new folder; its manifest."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out} exists and is not an empty folder; choose another")
    noisy, manifest = pipeline.corrupted(data, noise, seed, confusion)
    train, truth = noisy.train, noisy.train.truth
    assert truth is not None  # noqa: S101  every noise records the truth
    sources = data.outside.classes if data.outside else ()
    table = labels_table(train, truth, sources)
    write_atomic(out / "labels.csv", table.to_csv(index=False, lineterminator="\n"))
    files = found_files(train, truth, roots or Roots())
    if files is None:
        write_arrays(out / "data.npz", arrays(noisy, truth))
    else:
        link_images(noisy, files, out / "images", (roots or Roots()).own)
    write_atomic(out / "noise.png", drawn(data.name, train, truth, table, manifest))
    write_json(out / "manifest.json", manifest)
    return manifest


def labels_table(train: Dataset, truth: Truth, sources: tuple[str, ...]) -> pd.DataFrame:
    """A row for each sample; what shows none of the classes has a source, not a true label."""
    names = np.array(train.classes, dtype=object)
    source = truth.source if truth.source is not None else torch.full((len(train),), -1)
    outside = np.array([*sources, ""], dtype=object)  # the last one is for -1
    return pd.DataFrame(
        {
            "id": np.arange(len(train)),
            "path": train.paths or "",
            "given_label": names[train.labels.numpy()],
            "true_label": np.where(truth.in_distribution, names[truth.labels.numpy()], ""),
            "in_distribution": truth.in_distribution.numpy(),
            "source_class": outside[source.numpy()],
        }
    )


def found_files(train: Dataset, truth: Truth, roots: Roots) -> list[Path | None] | None:
    """Each sample's file, None for a replaced image without one; None if the set has no files."""
    if train.paths is None or roots.own is None:
        return None
    files: list[Path | None] = []
    for path, own in zip(train.paths, truth.in_distribution.tolist(), strict=True):
        root = roots.own if own else roots.outside
        file = root / path if root and path else None
        if own and not (file and file.is_file()):
            return None
        files.append(file if file and file.is_file() else None)
    return files


def link_images(
    data: DatasetSplits, files: list[Path | None], out: Path, root: Path | None
) -> None:
    """A folder for each given class with links to the files; images without one are written."""
    train = data.train
    top = out / "train" if data.test else out
    digits = len(str(len(train) - 1))
    with explain_write_errors(out):
        for i, (file, label) in enumerate(zip(files, train.labels.tolist(), strict=True)):
            place = top / train.classes[label]
            place.mkdir(parents=True, exist_ok=True)
            if file is None:
                pixels = train.images.load(torch.tensor([i]))[0]
                Image.fromarray(as_picture(pixels)).save(place / f"{i:0{digits}}.png")
            else:
                (place / f"{i:0{digits}}-{file.name}").symlink_to(file.resolve())
        if data.test and data.test.paths and root:
            for path in data.test.paths:
                link = out / "test" / Path(path).relative_to(Path(path).parts[0])
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to((root / path).resolve())


def arrays(data: DatasetSplits, truth: Truth) -> dict[str, NDArray[Any]]:
    """What an .npz data set holds; y_true is -1 where the image shows none of the classes."""
    content = {"y_true": torch.where(truth.in_distribution, truth.labels, -1).numpy()}
    for end, part in (("", data.train), ("_test", data.test)):
        if part is not None:
            content[f"x{end}"] = part.images.load(torch.arange(len(part))).numpy()
            content[f"y{end}"] = part.labels.numpy()
    return content | {"classes": np.array(data.train.classes)}


def drawn(
    name: str, train: Dataset, truth: Truth, table: pd.DataFrame, manifest: dict[str, Any]
) -> bytes:
    """The picture: who is labelled what, and some of the corrupted samples."""
    own, classes = truth.in_distribution, len(train.classes)
    matrix = realised_matrix(truth.labels[own], train.labels[own], classes).numpy()
    rows = list(train.classes)
    if not bool(own.all()):
        share = torch.bincount(train.labels[~own], minlength=classes).double() / (~own).sum()
        matrix, rows = np.vstack([matrix, share.numpy()]), [*rows, "outside"]
    samples = []
    wrong = truth.is_noisy(train.labels).nonzero().flatten()
    chosen = torch.linspace(0, len(wrong) - 1, min(SHOWN, len(wrong))).long()
    if len(train.images.shape) == 3:
        for i in wrong[chosen].tolist():
            row = table.iloc[i]
            pixels = train.images.load(torch.tensor([i]))[0]
            origin = row.true_label or row.source_class
            samples.append((as_picture(pixels), row.given_label, origin, not own[i]))
    title = (
        f"{name}, {manifest['spec']}, seed {manifest['seed']}: "
        f"{manifest['wrong']:,} of {len(train):,} wrong ({manifest['realised']:.1%})"
    )
    return draw_noise(title, matrix, rows, train.classes, samples)


def as_picture(pixels: torch.Tensor) -> NDArray[Any]:
    """uint8 [H, W] or [H, W, 3]."""
    return pixels.permute(1, 2, 0).squeeze(2).cpu().numpy()
