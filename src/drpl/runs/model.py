"""A trained network on disk: weights as safetensors, all else as JSON. Loading runs no code."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_weights
from safetensors.torch import save as write_weights
from torch import Tensor, nn

from drpl.config.settings import Common
from drpl.data.dataset import DatasetSplits, Encoding
from drpl.data.images import FileImages, Images, TensorImages, redecode
from drpl.data.pixel_store import CACHE
from drpl.data.prefetch import load_batches, read_ahead
from drpl.data.transforms import Normalise
from drpl.encoders.encoder import Encoder, load_encoder
from drpl.errors import DataError, RunError
from drpl.files import digest, read_json, write_atomic, write_json
from drpl.networks.build import Builder, build_network
from drpl.networks.ensemble import Ensemble
from drpl.registry import NETWORKS
from drpl.runs.records import ModelRecord
from drpl.training.evaluate import predict

BASIS = "basis"  # among the weights: what brings vectors to fewer dimensions
BATCH = 256  # images that are encoded at once


@dataclass(frozen=True)
class Model:
    """A network with what it needs to look at an image and to name what it sees."""

    net: nn.Module
    classes: tuple[str, ...]
    shape: tuple[int, ...]  # (channels, height, width) before the crop, or (features,)
    transform: Normalise
    encoding: Encoding | None = None  # what made vectors of images, if it was trained on such

    @cached_property
    def encoder(self) -> Encoder | None:
        """What makes vectors of images for the network."""
        made = self.encoding
        if made is None:
            return None
        found = load_encoder(made.encoder, size=made.size, cache=CACHE / "features")
        if found.weights != made.weights:
            raise RunError(
                f"the encoder {made.encoder} has other weights here than when the model was "
                "trained; use the version that it was trained with"
            )
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without the encoder, which is loaded again: what runs it cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != "encoder"}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """What it is shown: images (3, S, S) where an encoder stands before the network."""
        return (3, self.encoding.size, self.encoding.size) if self.encoding else self.shape

    def predict(self, images: Images) -> Tensor:
        """Class probabilities of images, or of vectors like those of its training. [N, C]"""
        if len(images.shape) == 3 and self.encoding:
            images = TensorImages(self.encode(images))
        return predict(self.net, images, self.transform, torch.device("cpu")).exp()

    def encode(self, images: Images) -> Tensor:
        """The vectors that the network was trained on, of other images. [N, D]"""
        encoder, made = self.encoder, self.encoding
        if encoder is None or made is None:
            raise DataError("this model takes its input as it is; there is nothing to encode")
        shown, found = redecode(images, encoder.size), []
        for _, pixels in load_batches(shown, list(torch.arange(len(shown)).split(BATCH))):
            vectors = encoder.encode(pixels)
            if made.mirrored:
                vectors = (vectors + encoder.encode(pixels.flip(3))) / 2
            found.append(vectors)
        return torch.cat(found)


def save(
    folder: Path, net: nn.Module, config: Common, data: DatasetSplits, transform: Normalise
) -> None:
    """Write `model.safetensors` and `model.json`."""
    weights = {name: t.detach().cpu().contiguous() for name, t in net.state_dict().items()}
    if transform.basis is not None:
        weights[BASIS] = transform.basis.cpu().contiguous()
    content = write_weights(weights)
    write_atomic(folder / "model.safetensors", content)
    write_json(
        folder / "model.json",
        {
            "network": config.network,
            "width": config.width,
            "members": len(net.members) if isinstance(net, Ensemble) else 1,
            "shape": list(data.train.images.shape),
            "classes": list(data.train.classes),
            "mean": list(transform.mean),
            "std": list(transform.std),
            "crop": config.crop,
            "dimensions": transform.output_shape(data.train.images.shape)[0],
            "encoding": data.encoding and asdict(data.encoding),
            "weights": digest(content),
        },
        sealed=True,
    )


def load_untrained(folder: Path | str, network: Builder | None = None) -> Model:
    """A model like the one in the folder, with fresh weights."""
    folder = Path(folder)
    if folder.exists() and not (folder / "model.json").is_file():
        raise RunError(
            f"{folder} is not the folder of a finished run: it has no model.json; name one that "
            "`drpl clean` or `drpl train` wrote"
        )
    about = read_json(folder / "model.json", ModelRecord)
    shape, classes = tuple(about["shape"]), tuple(about["classes"])
    kept, made = about.get("dimensions"), about.get("encoding")
    name, width, count = network or about["network"], about["width"], about.get("members", 1)
    _check_size(folder, about, known=isinstance(name, str) and name in (*NETWORKS, "auto"))
    basis = torch.zeros(shape[0], kept) if len(shape) == 1 and kept not in (None, *shape) else None
    transform = Normalise(tuple(about["mean"]), tuple(about["std"]), about["crop"], basis)
    members = [
        build_network(name, transform.output_shape(shape), len(classes), width)
        for _ in range(count)
    ]
    net = members[0] if count == 1 else Ensemble(*members)
    return Model(net, classes, shape, transform, Encoding(**made) if made else None)


def _check_size(folder: Path, about: dict[str, Any], *, known: bool) -> None:
    """Raise if the model would be much larger than its weights; nothing is allocated for that."""
    weights, shape = folder / "model.safetensors", tuple(about["shape"])
    there = weights.stat().st_size if weights.exists() else 2**62
    dimensions = about.get("dimensions") or shape[0]
    seen = (dimensions,) if len(shape) == 1 else shape
    size = 4 * shape[0] * dimensions if len(shape) == 1 and dimensions != shape[0] else 0
    if known:
        with torch.device("meta"):
            net = build_network(about["network"], seen, len(about["classes"]), about["width"])
        size += sum(table.nbytes for table in net.state_dict().values()) * about.get("members", 1)
    if size > 2 * there + 2**20:
        raise RunError(
            f"{folder / 'model.json'} is damaged: it asks for a model of {size:,} bytes, but "
            f"{weights.name} has {there:,}"
        )


def load(folder: Path | str, network: Builder | None = None) -> Model:
    """Read a model back, or say why it cannot be used; `network` is the user's own, if it was."""
    folder = Path(folder)
    model, path = load_untrained(folder, network), folder / "model.safetensors"
    try:
        content = path.read_bytes()
        weights = read_weights(content)
        if model.transform.basis is not None:
            model.transform.basis.copy_(weights.pop(BASIS, torch.empty(0, 0)))
        model.net.load_state_dict(weights)
    except FileNotFoundError:
        raise RunError(f"there is no {path}; was the run finished?") from None
    except SafetensorError as error:
        raise RunError(f"{path} is damaged: {error}") from error
    except (RuntimeError, TypeError):
        about = read_json(folder / "model.json")
        raise RunError(
            f"the weights in {path} belong to another network than model.json says "
            f"({about['network']}, width {about['width']}, {len(model.classes)} classes)"
        ) from None
    if not all(bool(torch.isfinite(table).all()) for table in weights.values()):
        raise RunError(f"{path} is damaged: some weights are not finite")
    kept = read_json(folder / "model.json").get("weights")  # not in models of version 0.1
    if kept and kept != digest(content):
        raise RunError(f"{path} is damaged: its weights are not those that were saved")
    return model


def classify(
    model: Model, files: Sequence[str], batch: int = 256
) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Batch by batch a table of the image files that can be read, and why the others can not.

    A row has a file's class, how sure that is, and the probability of every class.
    """
    if len(model.input_shape) != 3:
        raise DataError("this model is for vectors; it cannot look at image files")
    channels, side, _ = model.input_shape
    images = FileImages(files, side, channels)
    batches = torch.arange(len(files)).split(batch)
    for index, (pixels, broken) in read_ahead(images.attempt, batches, images.ahead):
        whole = [files[i] for i in index.tolist() if i not in broken]
        yield _tabulate(model, whole, pixels), list(broken.values())


def _tabulate(model: Model, files: Sequence[str], pixels: Tensor) -> pd.DataFrame:
    """A row for each image: its class, how sure, and the probability of every class."""
    empty = torch.empty(0, len(model.classes))
    probs = model.predict(TensorImages(pixels)) if files else empty
    confidence, best = probs.max(1)
    names = [model.classes[number] for number in best.tolist()]
    table = {"path": files, "class": names, "confidence": confidence.numpy()}
    columns = {
        f"p_{name}": column.numpy() for name, column in zip(model.classes, probs.T, strict=True)
    }
    return pd.DataFrame(table | columns)
