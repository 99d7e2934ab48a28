"""Where a model looks: class activation maps, above all of wrong labels that it memorised."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.functional import jacobian

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import TensorImages, redecode
from drpl.data.sources import ReadOptions
from drpl.errors import ConfigError
from drpl.files import check_apart, read_arrays, write_atomic
from drpl.networks.build import Builder
from drpl.networks.depth import compute_class_maps
from drpl.report.cam_figure import CamView, draw_cam
from drpl.report.table import to_csv
from drpl.runs import model as models
from drpl.runs.folder import Result
from drpl.runs.model import Model
from drpl.runs.reload_data import reload_data

COUNT = 6  # images, where none are asked for
COLUMNS = ("id", "path", "given", "p_given", "role", "other", "p_other", "shows", "flagged")

Samples = dict[str, NDArray[Any]]  # samples.npz


def look(
    run: Path | str,
    images: Iterable[int] = (),
    data: str | DatasetSplits | Dataset | None = None,
    *,
    count: int = COUNT,
    out: Path | str | None = None,
    network: Builder | None = None,
    read_options: ReadOptions | None = None,
    ood: str | DatasetSplits | Dataset | None = None,
    confusion: Path | str | None = None,
) -> list[CamView]:
    """Maps of the evidence for the given label and for the true (or suggested) one.

    `images` are ids of samples.csv; without any, those that were memorised are shown. `data`,
    `read_options`, `ood` and `confusion` say where the images are if the run's folder does not,
    see `reload_data`. With `out` a figure and a table are written there. `network` is the user's
    own, if the run's was.
    """
    result, model = Result.load(run), models.load(run, network)
    if out is not None:
        check_apart(Path(out), result.source, data if isinstance(data, str) else None)
    samples = read_arrays(result.folder / "samples.npz")
    ids = _check_ids(images, len(samples["given"])) or choose_ids(samples, count)
    # A network without maps is refused before data are read.
    model_maps(model, torch.zeros(1, *model.input_shape, dtype=torch.uint8))
    train = reload_data(
        result, model, data, read_options=read_options, ood=ood, confusion=confusion
    )
    views = [_view_image(i, train, model, samples) for i in ids]
    if out is not None:
        s = result.summary
        noise = f", noise {s['noise']['spec']}" if s["noise"]["spec"] else ""
        draw_cam(views, f"{s['method']} on {s['dataset']}{noise}").write(Path(out))
        rows = [{name: getattr(view, name) for name in COLUMNS} for view in views]
        write_atomic(Path(out) / "look.csv", to_csv(pd.DataFrame(rows)))
    return views


def model_maps(model: Model, pixels: Tensor) -> Tensor:
    """Where a model sees the evidence for each class on stored images. [B, C, H, W]"""
    if model.encoding is None:
        return compute_class_maps(model.net, model.transform(pixels, torch.empty(len(pixels), 0)))
    encoder = model.encoder and model.encoder.net
    if not encoder or not encoder.has_maps:
        raise ConfigError(f"the encoder {model.encoding.encoder} has no maps of an image")

    def classify(vectors: Tensor) -> Tensor:
        logits: Tensor = model.net.eval()(model.transform(vectors, torch.empty(len(vectors), 0)))
        return logits

    with torch.no_grad():
        maps = encoder.compute_map(pixels)  # [B, D, H, W]
    # How each logit changes with each feature, which is the mean over one of the maps.
    slopes = [jacobian(classify, one.mean((1, 2))[None])[0, :, 0] for one in maps]
    return torch.einsum("bcd,bdhw->bchw", torch.stack(slopes), maps)


def _check_ids(images: Iterable[int], count: int) -> list[int]:
    """The ids, if there are such samples."""
    ids = list(dict.fromkeys(images))
    for i in ids:
        if not 0 <= i < count:
            raise ConfigError(f"the run has no image {i}; its ids are 0 to {count - 1}")
    return ids


def choose_ids(samples: Samples, count: int) -> list[int]:
    """Those memorised, highest confidence first; where none are known, the most suspicious."""
    ids = find_memorised(samples)
    if not len(ids):
        ids = np.lexsort((-samples["loss"], -samples["p_noisy"]))
    return [int(i) for i in ids[:count]]


def find_memorised(samples: Samples) -> NDArray[np.intp]:
    """Wrong labels that were not detected and that the model predicts, highest confidence first."""
    if "wrong" not in samples:
        return np.empty(0, np.intp)
    learnt = samples["wrong"] & ~samples["flagged"] & (samples["suggested"] == samples["given"])
    ids = learnt.nonzero()[0]
    return np.asarray(ids[np.argsort(-samples["confidence"][ids], kind="stable")])


def _view_image(i: int, train: Dataset, model: Model, samples: Samples) -> CamView:
    """One image and what the model sees on it."""
    shown = redecode(train.pictures, model.input_shape[1]) if train.pictures else train.images
    pixels = shown.load(torch.tensor([i]))
    maps = model_maps(model, pixels)[0].numpy()
    probs = model.predict(TensorImages(pixels))[0].numpy()
    given = int(samples["given"][i])
    role, other = choose_other(i, probs, samples)
    shows = ""
    if "true" in samples:
        inside = samples["in_distribution"][i]
        shows = model.classes[samples["true"][i]] if inside else "none of the classes"
    return CamView(
        id=i,
        path=str(train.paths[i]) if train.paths else "",
        pixels=(pixels if model.encoding else model.transform.crop_centre(pixels))[0]
        .permute(1, 2, 0)
        .numpy(),
        given=model.classes[given],
        p_given=float(probs[given]),
        given_map=maps[given],
        role=role,
        other=model.classes[other],
        p_other=float(probs[other]),
        other_map=maps[other],
        shows=shows,
        flagged=bool(samples["flagged"][i]),
    )


def choose_other(i: int, probs: NDArray[Any], samples: Samples) -> tuple[str, int]:
    """The class to compare the given one with, and what it is: true, suggested, or next best."""
    given = samples["given"][i]
    if "true" in samples and samples["in_distribution"][i] and samples["true"][i] != given:
        return "true", int(samples["true"][i])
    others = np.where(np.arange(len(probs)) == given, -1, probs)
    return "suggested" if probs.argmax() != given else "next best", int(others.argmax())
