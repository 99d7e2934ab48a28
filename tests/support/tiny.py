"""The tiny noisy problem everything is tested on, and settings that suit it.

Settings are nested mappings here; how `compose`, `drpl.train` and `--set` take them is known to
this module only.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from pydantic import BaseModel
from torch import nn

from drpl.config.compose import compose, flatten, merge
from drpl.config.settings import Common
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.arrays import arrays
from drpl.randomness import rng
from drpl.registry import METHODS
from drpl.training.schedule import Schedule

Settings = dict[str, Any]
C = TypeVar("C", bound=Common)

PHASES = {  # settings that are epochs, and after which share of the training theirs comes
    "begin": 0.5,
    "learn_from": 0.4,
    "learn_until": 0.7,
    "select_from": 0.5,
    "positive_from": 0.75,
    "agree_from": 0.75,
}


def tiny_pixels(count: int, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Three classes of 8 x 8 images: a bright top, a bright left side, a bright middle."""
    draws = rng("tiny", part)
    labels = torch.arange(count) % 3
    pixels = torch.randint(0, 60, (count, 1, 8, 8), generator=draws)
    pixels[labels == 0, :, :3] += 150
    pixels[labels == 1, :, :, :3] += 150
    pixels[labels == 2, :, 2:6, 2:6] += 150
    return pixels.to(torch.uint8), labels


def tiny_data() -> DatasetSplits:
    """72 training images and 36 test images with right labels."""
    pixels, labels = tiny_pixels(72, "train")
    test_pixels, test_labels = tiny_pixels(36, "test")
    return arrays(
        pixels.numpy(),
        labels.numpy(),
        test_pixels.numpy(),
        test_labels.numpy(),
        classes=["top", "left", "middle"],
        name="tiny",
    )


def lr(*steps: tuple[int, float]) -> Settings:
    """The learning rates of a schedule: from this epoch on, that rate."""
    return {"lr": [list(step) for step in steps]}


def make_schedule(epochs: int, *steps: tuple[int, float], batch_size: int = 128) -> Schedule:
    return Schedule(epochs=epochs, lr=steps, batch_size=batch_size)


def shortened(schema: type[BaseModel], epochs: int) -> Settings:
    """Settings that make every schedule of a configuration short."""
    found: Settings = {}
    for name, field in schema.model_fields.items():
        kind = field.annotation
        if kind is Schedule:
            found[name] = {"epochs": epochs, **lr((1, 0.05), (2, 0.02)), "batch_size": 16}
        elif name in PHASES:
            found[name] = max(1, int(epochs * PHASES[name]))
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {name: inside} if (inside := shortened(kind, epochs)) else {}
    return found


# What does not suit every method: a determinant wants larger batches and smaller rates.
TINY: dict[str, Settings] = {"dmi": {"schedule": {**lr((1, 0.002)), "batch_size": 36}}}


def in_every_schedule(method: str, settings: Settings) -> Settings:
    """The same settings for all schedules of a method."""
    fields = METHODS[method].load().Config.model_fields
    return {name: settings for name, field in fields.items() if field.annotation is Schedule}


def merge_all(*parts: Mapping[str, Any]) -> Settings:
    """Later settings win."""
    whole: Settings = {}
    for part in parts:
        merge(whole, part)
    return whole


def tiny_config(method: str, epochs: int = 3, *settings: Mapping[str, Any]) -> Common:
    """A method's settings for the tiny problem."""
    schema: type[Common] = METHODS[method].load().Config
    plain = {"width": 4, "flip": False}
    whole = merge_all(shortened(schema, epochs), plain, TINY.get(method, {}), *settings)
    return read_preset(schema, method, "small", settings=whole)


def read_preset(
    schema: type[C], method: str, *presets: str, settings: Mapping[str, Any] | None = None
) -> C:
    """A method's settings as the presets have them, and with these."""
    return compose(schema, method, presets, settings)


def as_options(settings: Mapping[str, Any]) -> list[str]:
    """Settings for the command line."""
    texts = [f"{name}={json.dumps(value)}" for name, value in flatten(settings).items()]
    return [word for text in texts for word in ("--set", text)]


def brief_settings(method: str, epochs: int = 1, *settings: Mapping[str, Any]) -> Settings:
    """Settings that make a training short and its network narrow."""
    return merge_all(shortened(METHODS[method].load().Config, epochs), {"width": 4}, *settings)


def brief_options(method: str, epochs: int = 1, *settings: Mapping[str, Any]) -> list[str]:
    """The same for the command line."""
    return as_options(brief_settings(method, epochs, *settings))


def tiny_network(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions with batch norm, for images of the tiny problem: 10 times as fast."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, classes),
    )
