"""A model on disk looks at images as it did in training, with any network."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import drpl
from drpl.config.compose import compose
from drpl.data.dataset import DatasetSplits
from drpl.data.transforms import Normalise
from drpl.errors import ConfigError, RunError
from drpl.methods.cross_entropy import Config
from drpl.networks.build import build_network
from drpl.networks.ensemble import Ensemble
from drpl.runs import model
from tests.support.tiny import tiny_config, tiny_pixels


def small_network(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))


def test_prediction_repeats_the_crop(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("cross_entropy", 2, {"crop": 0.75})
    result = drpl.train(tiny, method="cross_entropy", config=config, out=tmp_path, quiet=True)
    assert json.loads((tmp_path / "model.json").read_text())["crop"] == 0.75
    again = model.load(tmp_path)
    assert again.shape == (1, 8, 8)
    assert again.transform.output_shape(again.shape) == (1, 6, 6)
    confidence = again.predict(tiny.train.images).max(1).values
    assert confidence.tolist() == pytest.approx(result.samples["confidence"].tolist(), rel=1e-4)


def test_the_papers_webvision_runs_on_small_images(tiny: DatasetSplits, tmp_path: Path) -> None:
    settings = {"network": "resnet18", "crop": 0.875, "padding": 0.0}
    config = tiny_config("cross_entropy", 1, settings)
    drpl.train(tiny, method="cross_entropy", config=config, out=tmp_path, quiet=True)
    assert model.load(tmp_path).predict(tiny.train.images).shape == (72, 3)


def test_a_network_of_ones_own(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("cross_entropy", 6, {"crop": 0.75})
    result = drpl.train(
        tiny,
        method="cross_entropy",
        config=config,
        network=small_network,
        out=tmp_path,
        quiet=True,
    )
    assert (result.accuracy["last"] or 0) > 80
    with pytest.raises(ConfigError, match="a function of your own"):
        model.load(tmp_path)
    right = tiny_pixels(36, "test")[1]
    probs = model.load(tmp_path, small_network).predict(tiny.test.images)  # type: ignore[union-attr]
    assert float((probs.argmax(1) == right).double().mean()) > 0.8
    assert torch.allclose(probs.sum(1), torch.ones(36))


def test_an_ensemble_is_loaded_whole(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = compose(Config, "cross_entropy", ["small"], {"width": 4})
    members = [build_network("auto", (1, 8, 8), 3, 4) for _ in range(2)]
    still = Normalise(tiny.mean, tiny.std)
    model.save(tmp_path, Ensemble(*members), config, tiny, still)
    again = model.load(tmp_path)
    images = tiny.train.images
    x = again.transform(images.load(torch.arange(72)), torch.zeros(72, 0))
    with torch.no_grad():
        wanted = sum(member.eval()(x) for member in members).softmax(1)
    assert torch.allclose(again.predict(images), wanted, atol=1e-6)
    about = read_unsealed(tmp_path)
    for wrong, sentence in (
        (3, "another network"),
        (1, "another network"),
        ("two", "damaged: members"),
    ):
        (tmp_path / "model.json").write_text(json.dumps(about | {"members": wrong}))
        with pytest.raises(RunError, match=sentence):
            model.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"width": 50_000},
        {"width": 2**40},
        {"width": -1},
        {"width": "4"},
        {"shape": [1, 8]},
        {"shape": [1, 8, float("nan")]},
        {"shape": [1000, 8, 8]},
        {"members": 99},
        {"mean": [float("inf")]},
        {"mean": [0.1, 0.2, 0.3]},
        {"std": [0.0]},
        {"crop": 7},
        {"classes": []},
        {"classes": "abc"},
        {"network": 7},
        {"network": "nothing"},
        {"encoding": {"encoder": "lite0"}},
    ],
)
def test_a_damaged_description_is_a_sentence(
    tiny: DatasetSplits, tmp_path: Path, change: dict[str, object]
) -> None:
    config = compose(Config, "cross_entropy", ["small"], {"width": 4})
    net = build_network("auto", (1, 8, 8), 3, 4)
    model.save(tmp_path, net, config, tiny, Normalise(tiny.mean, tiny.std))
    about = read_unsealed(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(about | change))
    with pytest.raises(drpl.DrplError):
        model.load(tmp_path).predict(tiny.train.images)


def test_weights_that_are_no_numbers(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = compose(Config, "cross_entropy", ["small"], {"width": 4})
    net = build_network("auto", (1, 8, 8), 3, 4)
    with torch.no_grad():
        next(net.parameters()).fill_(float("nan"))
    model.save(tmp_path, net, config, tiny, Normalise(tiny.mean, tiny.std))
    with pytest.raises(RunError, match="some weights are not finite"):
        model.load(tmp_path)


def read_unsealed(folder: Path) -> dict[str, Any]:
    """model.json as version 0.1 wrote it: what is changed in it is not seen by its seal."""
    about = json.loads((folder / "model.json").read_text())
    assert about.pop("seal")
    return dict(about)


def test_a_flipped_bit_of_a_weight_is_damage(tiny: DatasetSplits, tmp_path: Path) -> None:
    """The file is valid and all its numbers are finite, but the model is another one."""
    config = tiny_config("cross_entropy", 1)
    drpl.train(tiny, method="cross_entropy", config=config, out=tmp_path, quiet=True)
    path = tmp_path / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-4] ^= 1  # the lowest bit of the last weight
    path.write_bytes(content)
    with pytest.raises(RunError, match="not those that were saved"):
        model.load(tmp_path)
    about = read_unsealed(tmp_path)
    del about["weights"]
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert model.load(tmp_path).classes == tiny.train.classes
