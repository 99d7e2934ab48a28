"""Where a model looks: class activation maps, above all of wrong labels that it learnt by heart."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.errors import ConfigError
from drpl.files import write_atomic
from drpl.networks.build import Builder
from drpl.networks.depth import class_maps
from drpl.report.cam_figure import Sight, drawn
from drpl.report.table import as_csv
from drpl.runs import model as models
from drpl.runs.folder import Result
from drpl.runs.model import Model
from drpl.runs.reload_data import reread

COUNT = 6  # images, where none are asked for

Samples = dict[str, NDArray[Any]]  # samples.npz


def look(
    run: Path | str,
    images: Iterable[int] = (),
    data: str | DatasetSplits | Dataset | None = None,
    *,
    count: int = COUNT,
    out: Path | str | None = None,
    network: Builder | None = None,
    **more: Any,
) -> list[Sight]:
    """Maps of the evidence for the given label and for the true (or suggested) one.

    `images` are ids of samples.csv; without any, those that are looked at are `memorised`. `data`
    and `more` say where the images are if the run's folder does not, see `reread`. With `out` a
    figure and a table are written there. `network` is the user's own, if the run's was.
    """
    result, model = Result.load(run), models.load(run, network)
    with np.load(result.folder / "samples.npz") as arrays:
        samples = dict(arrays)
    ids = checked(images, len(samples["given"])) or chosen(samples, count)
    class_maps(
        model.net, torch.zeros(1, *model.view.output_shape(model.shape))
    )  # before data are read
    train = reread(result, model, data, **more)
    sights = [sight(i, train, model, samples) for i in ids]
    if out is not None:
        s = result.summary
        noise = f", noise {s['noise']['spec']}" if s["noise"]["spec"] else ""
        png, svg = drawn(sights, f"{s['method']} on {s['dataset']}{noise}")
        write_atomic(Path(out) / "look.png", png)
        write_atomic(Path(out) / "look.svg", svg)
        rows = [{name: getattr(one, name) for name in COLUMNS} for one in sights]
        write_atomic(Path(out) / "look.csv", as_csv(pd.DataFrame(rows)))
    return sights


COLUMNS = ("id", "path", "given", "p_given", "role", "other", "p_other", "shows", "flagged")


def checked(images: Iterable[int], count: int) -> list[int]:
    """The ids, if there are such samples."""
    ids = list(dict.fromkeys(images))
    for i in ids:
        if not 0 <= i < count:
            raise ConfigError(f"the run has no image {i}; its ids are 0 to {count - 1}")
    return ids


def chosen(samples: Samples, count: int) -> list[int]:
    """Those learnt by heart, surest first; where none are known, the most suspicious."""
    ids = memorised(samples)
    if not len(ids):
        ids = np.lexsort((-samples["loss"], -samples["p_noisy"]))
    return [int(i) for i in ids[:count]]


def memorised(samples: Samples) -> NDArray[np.intp]:
    """Wrong labels that were not detected and that the model now predicts, surest first."""
    if "wrong" not in samples:
        return np.empty(0, np.intp)
    learnt = samples["wrong"] & ~samples["flagged"] & (samples["suggested"] == samples["given"])
    ids = learnt.nonzero()[0]
    return np.asarray(ids[np.argsort(-samples["confidence"][ids], kind="stable")])


def sight(i: int, train: Dataset, model: Model, samples: Samples) -> Sight:
    """One image and what the model sees on it."""
    pixels = train.images.load(torch.tensor([i]))
    x = model.view(pixels, torch.empty(1, 0))
    maps = class_maps(model.net, x)[0].numpy()
    with torch.no_grad():
        probs = model.net.eval()(x).softmax(1)[0].numpy()
    given = int(samples["given"][i])
    role, other = beside(i, probs, samples)
    return Sight(
        id=i,
        path=str(train.paths[i]) if train.paths else "",
        pixels=model.view.crop_centre(pixels)[0].permute(1, 2, 0).numpy(),
        given=model.classes[given],
        p_given=float(probs[given]),
        given_map=maps[given],
        role=role,
        other=model.classes[other],
        p_other=float(probs[other]),
        other_map=maps[other],
        shows=shown(i, model.classes, samples),
        flagged=bool(samples["flagged"][i]),
    )


def beside(i: int, probs: NDArray[Any], samples: Samples) -> tuple[str, int]:
    """The class to compare the given one with, and what it is: true, suggested, or next best."""
    given = samples["given"][i]
    if "true" in samples and samples["in_distribution"][i] and samples["true"][i] != given:
        return "true", int(samples["true"][i])
    others = np.where(np.arange(len(probs)) == given, -1, probs)
    return "suggested" if probs.argmax() != given else "next best", int(others.argmax())


def shown(i: int, classes: tuple[str, ...], samples: Samples) -> str:
    """What the image shows, as far as that is known."""
    if "true" not in samples:
        return ""
    return classes[samples["true"][i]] if samples["in_distribution"][i] else "none of the classes"
