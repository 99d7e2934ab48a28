"""A corrupted data set on disk: labels, images and a manifest."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image

from drpl.data.dataset import Dataset, DatasetSplits, Truth
from drpl.data.decoding import to_picture
from drpl.errors import StorageError
from drpl.files import (
    explain_write_errors,
    format_table,
    lock_folder,
    read_json,
    write_arrays,
    write_atomic,
    write_if_changed,
    write_json,
)
from drpl.noise.inject import corrupt

CLAIM = ".noise.json"  # says what a folder is for, before anything else is written
SHOWN = 30  # corrupted samples in a picture

Sample = tuple[NDArray[Any], str, str, bool]  # image, given label, true class, from outside


@dataclass(frozen=True)
class NoisyCopy:
    """What was written, and what a picture of it shows."""

    manifest: dict[str, Any]
    title: str
    matrix: NDArray[Any]  # [rows, classes] shares of each row
    rows: tuple[str, ...]  # true classes, and perhaps "outside"
    columns: tuple[str, ...]  # given labels
    samples: list[Sample]


def write_noisy(
    data: DatasetSplits,
    noise: str,
    out: Path,
    *,
    seed: int = 1,
    confusion: Path | None = None,
    root: Path | None = None,
    ood_root: Path | None = None,
) -> NoisyCopy:
    """Write the data with noise to a new folder, or finish what the same call has begun there.

    `root` and `ood_root` are the folders that the paths of the data and of its outside start in.
    """
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file; choose another name for the folder")
    noisy, manifest = corrupt(data, noise, seed, confusion)
    train, truth = noisy.train, noisy.train.truth
    assert truth is not None  # noqa: S101  every noise records the truth
    table = _make_table(train, truth, data.outside.classes if data.outside else ())
    files = _find_files(train, truth, root, ood_root)
    claim = {"spec": manifest["spec"], "seed": seed, "images": train.identify()}
    claim["test"] = noisy.test.identify() if noisy.test else "none"
    _check_claim(out, claim)
    with lock_folder(out):
        write_if_changed(out / CLAIM, json.dumps(claim))
        write_atomic(out / "labels.csv", format_table(table))
        if files is None:
            write_arrays(out / "data.npz", _collect_arrays(noisy, truth))
        else:
            _link_images(noisy, files, out / "images", root)
        write_json(out / "manifest.json", manifest)
    return _summarize(data.name, train, truth, table, manifest)


def _check_claim(out: Path, claim: dict[str, Any]) -> None:
    """Raise if a folder holds anything but what the same call has written, or begun to write."""
    if not out.exists() or all(path.name.startswith(".") for path in out.iterdir()):
        return
    if not (out / CLAIM).exists() or read_json(out / CLAIM) != claim:
        raise StorageError(
            f"{out} is not an empty folder, and holds something else than this noise on these "
            "data; choose another"
        )


def _make_table(train: Dataset, truth: Truth, sources: tuple[str, ...]) -> pd.DataFrame:
    """A row for each sample; what shows none of the classes has a source, not a true label."""
    names = np.array(train.classes, dtype=object)
    outside = np.array([*sources, ""], dtype=object)  # the last one is for -1
    return pd.DataFrame(
        {
            "id": np.arange(len(train)),
            "path": train.paths or "",
            "given_label": names[train.labels.numpy()],
            "true_label": np.where(truth.in_distribution, names[truth.labels.numpy()], ""),
            "in_distribution": truth.in_distribution.numpy(),
            "source_class": outside[truth.sources.numpy()],
        }
    )


def _find_files(
    train: Dataset, truth: Truth, root: Path | None, ood_root: Path | None
) -> list[Path | None] | None:
    """Each sample's file, None for a replaced image without one; None if the set has no files."""
    if train.paths is None or root is None:
        return None
    files: list[Path | None] = []
    for path, own in zip(train.paths, truth.in_distribution.tolist(), strict=True):
        home = root if own else ood_root
        file = home / path if home and path and (home / path).is_file() else None
        if own and not file:
            return None
        files.append(file)
    return files


def _link_images(
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
                content = io.BytesIO()
                pixels = train.images.load(torch.tensor([i]))[0]
                Image.fromarray(to_picture(pixels)).save(content, "PNG")
                write_atomic(place / f"{i:0{digits}}.png", content.getvalue())
            else:
                _place_link(place / f"{i:0{digits}}-{file.name}", file)
        if data.test and data.test.paths and root:
            for path in data.test.paths:
                link = out / "test" / Path(path).relative_to(Path(path).parts[0])
                link.parent.mkdir(parents=True, exist_ok=True)
                _place_link(link, root / path)


def _place_link(link: Path, file: Path) -> None:
    """A link to a file, unless an earlier call has left it."""
    if not link.is_symlink():
        link.symlink_to(file.resolve())


def _collect_arrays(data: DatasetSplits, truth: Truth) -> dict[str, NDArray[Any]]:
    """What an .npz data set holds; y_true is -1 where the image shows none of the classes."""
    content = {"y_true": torch.where(truth.in_distribution, truth.labels, -1).numpy()}
    for end, part in (("", data.train), ("_test", data.test)):
        if part is not None:
            content[f"x{end}"] = part.images.load(torch.arange(len(part))).numpy()
            content[f"y{end}"] = part.labels.numpy()
    return content | {"classes": np.array(data.train.classes)}


def _summarize(
    name: str, train: Dataset, truth: Truth, table: pd.DataFrame, manifest: dict[str, Any]
) -> NoisyCopy:
    """Who is labelled what, and some of the corrupted samples."""
    own, rows, matrix = truth.in_distribution, train.classes, np.array(manifest["matrix"])
    if not bool(own.all()):
        share = torch.bincount(train.labels[~own], minlength=len(rows)).double() / (~own).sum()
        matrix, rows = np.vstack([matrix, share.numpy()]), (*rows, "outside")
    wrong = truth.is_noisy(train.labels).nonzero().flatten()
    few = min(SHOWN, len(wrong)) if len(train.images.shape) == 3 else 0  # vectors are no pictures
    chosen = wrong[torch.linspace(0, len(wrong) - 1, few).long()]
    samples: list[Sample] = []
    rows_shown = table.iloc[chosen.numpy()].itertuples()
    for pixels, row in zip(train.images.load(chosen), rows_shown, strict=True):
        origin = row.true_label or row.source_class
        samples.append((to_picture(pixels), row.given_label, origin, not row.in_distribution))
    title = (
        f"{name}, {manifest['spec']}, seed {manifest['seed']}: "
        f"{manifest['wrong']:,} of {len(train):,} wrong ({manifest['realised']:.1%})"
    )
    return NoisyCopy(manifest, title, matrix, rows, train.classes, samples)
