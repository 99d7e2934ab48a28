"""The training images of a finished run, read again: its folder keeps what it saw of them only."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import select
from drpl.data.sources import LABELLING, ReadOptions, load, with_ood
from drpl.errors import DataError
from drpl.files import digest, read_arrays, read_json
from drpl.noise.inject import corrupt
from drpl.registry import DATASETS
from drpl.runs.experiment import as_splits
from drpl.runs.folder import Result
from drpl.runs.model import Model
from drpl.runs.records import ProvenanceRecord

COMPARED = 64  # images on which the model must answer as it did
AGREE, NEAR = 0.95, 0.02  # share of equal answers, and how far apart confidences may be on average
HOW = "give the data with --data and the run's own --limit, --outside, --ood and --confusion"


def reload_data(
    result: Result,
    model: Model,
    data: str | DatasetSplits | Dataset | None = None,
    *,
    read_options: ReadOptions | None = None,
    ood: str | DatasetSplits | Dataset | None = None,
    confusion: Path | str | None = None,
) -> Dataset:
    """The images that a run was trained on, in the order of its samples.

    What the run folder says of its data holds, except for what is given here (of `read_options`
    what is not at its default). The images are taken for the right ones if the model still says of
    them what it said when the run was finished.
    """
    made = read_json(result.folder / "provenance.json", ProvenanceRecord)
    traced = made.get("data") or {}
    if data is None or isinstance(data, str):
        what = data or traced.get("what") or _find_name(result)
        asked = read_options or ReadOptions()
        loaded = load(what, _merge_options(traced, model, asked))
        if not asked.size and len(model.shape) == 3:  # `drpl clean` reads, then makes smaller
            loaded = loaded.resize(model.shape[1])
    else:
        loaded = as_splits(data)
    samples = read_arrays(result.folder / "samples.npz")
    classes = tuple(result.summary["classes"])
    if len(loaded.train) != len(samples["given"]) or loaded.train.classes != classes:
        raise DataError(
            f"{loaded.name} has {len(loaded.train):,} training images of "
            f"{len(loaded.train.classes)} classes here, but the run in {result.folder} saw "
            f"{len(samples['given']):,} of {len(classes)}; {HOW}"
        )
    train = loaded.train
    if result.summary["noise"]["spec"] and not samples.get("in_distribution", np.ones(1)).all():
        # Images of other classes took the place of some: only the same noise brings them back.
        loaded = with_ood(loaded, ood or traced.get("ood"))
        alike = confusion or made.get("confusion")
        seed, spec = result.summary["seed"], result.summary["noise"]["spec"]
        train = corrupt(loaded, spec, seed, Path(alike) if alike else None)[0].train
        if digest(train.labels.numpy().tobytes()) != digest(samples["given"].tobytes()):
            raise DataError(f"{spec} on {loaded.name} gives other labels than the run's; {HOW}")
    _check_same(train, model, samples, result)
    return train


def _find_name(result: Result) -> str:
    """The data set's name, if that is enough to find it."""
    name = str(result.summary["dataset"])
    if name.partition(":")[0] not in DATASETS:
        raise DataError(
            f"the run in {result.folder} does not say where its data {name!r} are; {HOW}"
        )
    return name


def _merge_options(traced: dict[str, Any], model: Model, asked: ReadOptions) -> ReadOptions:
    """How the data are read: as asked for now, or else as they were."""
    known: dict[str, Any] = {
        key: traced[key]
        for key in ("size", "limit", "skip_broken", "features", "mirrored")
        if key in traced
    }
    known |= {key: traced[key] for key in LABELLING if key in traced}
    known["outside"] = tuple(traced.get("outside", ()))
    known["data_dir"] = Path(traced["data_dir"]) if traced.get("data_dir") else None
    if not traced and len(model.shape) == 3:
        known["size"] = model.shape[1]
    changed = {f.name: v for f in fields(asked) if (v := getattr(asked, f.name)) != f.default}
    return ReadOptions(**known | changed)


def _check_same(train: Dataset, model: Model, samples: dict[str, Any], result: Result) -> None:
    """Raise if these are not the images that the model judged when the run was finished."""
    if train.images.shape != model.shape:
        raise DataError(
            f"the images have the shape {train.images.shape}, those of the run in {result.folder} "
            f"had {model.shape}; {HOW}"
        )
    rows = np.linspace(0, len(train) - 1, min(COMPARED, len(train))).astype(int)
    confidence, answers = model.predict(select(train.images, torch.from_numpy(rows))).max(1)
    # In a cleaned folder `suggested` is what several networks say together.
    then = {
        name: samples.get(f"model_{name}", samples[name]) for name in ("suggested", "confidence")
    }
    agree = (answers.numpy() == then["suggested"][rows]).mean()
    apart = np.abs(confidence.numpy() - then["confidence"][rows]).mean()
    if agree < AGREE or apart > NEAR:
        raise DataError(
            f"these are not the images that the run in {result.folder} saw: on {len(rows)} of them "
            f"its model gives {agree:.0%} of the answers that it gave then; {HOW}"
        )
