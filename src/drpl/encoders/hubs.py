"""Encoders of timm and transformers: `timm:NAME[@FILE]`, `hf:NAME_OR_FOLDER`.

Hubs are asked only with `--download`; otherwise weights come from files that are there.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from drpl.encoders.encoder import Encoder, ImageNetwork
from drpl.encoders.engine import run_by_torch, silence
from drpl.errors import ConfigError
from drpl.files import digest

SIZE = 224


def load_timm(
    what: str, size: int | None, device: torch.device, download: bool, cache: Path | None
) -> Encoder:
    """A network of timm with the weights of a file, or with its own by `--download`."""
    name, _, file = what.partition("@")
    timm = _import("timm", f"timm:{what}")
    if file and not Path(file).is_file():
        raise ConfigError(f"there is no file of weights {file}")
    advice = f"give its weights as timm:{name}@FILE, or let timm fetch them with --download"
    with _offline(download), _explain(f"timm:{what} cannot be built", "" if file else advice):
        net = timm.create_model(name, pretrained=not file, num_classes=0)
        if file:
            _load_file(net, timm.models.load_state_dict(file))
        settings = timm.data.resolve_model_data_config(net)
    side = size or settings["input_size"][1]
    image_net = ImageNetwork(net, settings["mean"], settings["std"]).eval()
    return _finish(f"timm:{what}", image_net, side, device)


def _load_file(net: nn.Module, state: dict[str, Tensor]) -> None:
    """Give a network the weights of a file, whose classifier is passed over."""
    found = net.load_state_dict(state, strict=False)  # raises where a shape is another one
    if found.missing_keys:
        raise ConfigError(
            f"the file holds weights of another network: {len(found.missing_keys)} tensors are "
            f"not in it, such as {found.missing_keys[0]}"
        )


def load_hf(
    what: str, size: int | None, device: torch.device, download: bool, cache: Path | None
) -> Encoder:
    """The image tower of a model of transformers: CLIP, SigLIP, DINOv2, ViT and others."""
    transformers = _import("transformers", f"hf:{what}")
    advice = "give the folder of a saved model as hf:FOLDER, or let it be fetched with --download"
    with _offline(download), silence(), _explain(f"hf:{what} cannot be loaded", advice):
        # As a dictionary: what makes a processor of it may need torchvision.
        about, _ = transformers.ImageProcessingMixin.get_image_processor_dict(
            what, local_files_only=not download
        )
        model = transformers.AutoModel.from_pretrained(what, local_files_only=not download)
        model = model.float()  # many are stored in half precision, which images are not
    side = size or _read_side(about)
    mean = about.get("image_mean") or [0.0] * 3
    std = about.get("image_std") or [1.0] * 3
    return _finish(f"hf:{what}", ImageNetwork(_Tower(model), mean, std).eval(), side, device)


class _Tower(nn.Module):
    """The images' half of a model, as vectors."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tower = getattr(model, "vision_model", model)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, D]: what the model pools, or else its first token."""
        found = self.tower(pixel_values=x)
        pooled = getattr(found, "pooler_output", None)
        vectors: Tensor = found.last_hidden_state[:, 0] if pooled is None else pooled
        return vectors.flatten(1)


def _read_side(about: dict[str, Any]) -> int:
    """The size of images that a processor makes."""
    for key in ("crop_size", "size"):
        value = about.get(key)
        value = value if not isinstance(value, dict) else next(iter(value.values()), None)
        if isinstance(value, int):
            return value
    return SIZE


def _finish(name: str, net: ImageNetwork, side: int, device: torch.device) -> Encoder:
    """An encoder of a network, after a first image was tried."""
    try:
        with torch.inference_mode():
            dim = net(torch.zeros(1, 3, side, side, dtype=torch.uint8)).shape[1]
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{name} cannot be run on images of {side} px: {reason}") from None
    tensors = [tensor.detach().cpu().contiguous().numpy() for tensor in net.state_dict().values()]
    weights = digest(*(tensor.tobytes() for tensor in tensors))
    megabytes = sum(tensor.nbytes for tensor in tensors) / 2**20
    return Encoder(name, side, dim, weights, megabytes, net, run_by_torch(net, device))


def _import(package: str, name: str) -> Any:
    try:
        return import_module(package)
    except Exception as error:  # a package that does not fit this torch may raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"encoder {name!r} needs the package {package}, which cannot be imported ({reason})"
        ) from None


@contextmanager
def _explain(what: str, advice: str) -> Iterator[None]:
    """Turn whatever a package raises into a sentence."""
    try:
        yield
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines or [type(error).__name__])[0].rstrip(".:")
        raise ConfigError(f"{what} ({reason})" + (f"; {advice}" if advice else "")) from None


@contextmanager
def _offline(download: bool) -> Iterator[None]:
    """No hub is asked, unless that is wanted."""
    if download:
        yield
        return

    def refuse(url: str, *rest: object, **named: object) -> None:
        raise ConfigError(f"{url} is asked only with --download")

    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    with ExitStack() as changes:
        changes.enter_context(_changed(torch.hub, "download_url_to_file", refuse))
        if find_spec("huggingface_hub"):  # which has read the variable when it was imported
            constants = import_module("huggingface_hub.constants")
            changes.enter_context(_changed(constants, "HF_HUB_OFFLINE", True))
        try:
            yield
        finally:
            del os.environ["HF_HUB_OFFLINE"]
            if before is not None:
                os.environ["HF_HUB_OFFLINE"] = before


@contextmanager
def _changed(owner: Any, name: str, value: object) -> Iterator[None]:
    """Another value for a name of a module, for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
