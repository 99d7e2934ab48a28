"""Every method from pretrained weights: they are where it begins, and what is frozen stays."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.encoders.lite import MEAN, STD, load_weights
from drpl.errors import ConfigError, DrplError
from drpl.methods import cross_entropy
from drpl.networks.efficientnet_lite import EfficientNetLite, lite0
from drpl.networks.ensemble import Ensemble
from drpl.registry import METHODS
from drpl.runs import model
from drpl.runs.run import Run
from tests.support.killing import Killed, KillInSecondEpoch
from tests.support.tiny import TINY, brief_settings, read_preset

FROZEN = 3
TUNED = {"network": "lite0", "pretrained": True, "frozen": FROZEN}
BRIEF: dict[str, Any] = {"schedule": {"epochs": 2, "lr": [[1, 0.01]], "batch_size": 16}}


def coloured(channels: int = 3) -> DatasetSplits:
    """36 images of 32 x 32 pixels, each class with a bright part of its own."""
    draws, labels = np.random.default_rng(4), np.arange(36) % 3
    x = draws.integers(0, 90, (36, channels, 32, 32))
    for c, part in enumerate((np.s_[:12], np.s_[12:20], np.s_[20:])):
        x[labels == c, :, part] += 150
    return drpl.arrays(x.astype(np.uint8), labels, name="coloured")


def release() -> EfficientNetLite:
    net = lite0((3, 32, 32), 1000, 0)
    load_weights(net, "lite0")
    return net


def tuned(out: Path, method: str = "cross_entropy", **settings: Any) -> drpl.Result:
    return drpl.train(
        coloured(),
        method=method,
        preset=["small", "finetune"],
        settings=settings,
        noise="uniform:0.2",
        out=out,
        quiet=True,
    )


def slowly(method: str) -> object:
    """A few methods stand for all, which `make slow` trains."""
    few = ("cross_entropy", "drpl", "dividemix")
    return method if method in few else pytest.param(method, marks=pytest.mark.slow)


@pytest.mark.parametrize("method", [slowly(method) for method in METHODS])
def test_every_method_begins_with_pretrained_weights(method: str, tmp_path: Path) -> None:
    result = tuned(tmp_path, method, **brief_settings(method, 1, TINY.get(method, {})))
    assert len(result.samples) == 36
    about = json.loads((tmp_path / "model.json").read_text())
    assert about["mean"] == [MEAN] * 3
    assert about["std"] == [STD] * 3
    trained, before = model.load(tmp_path).net, release().state_dict()
    for net in trained.members if isinstance(trained, Ensemble) else [trained]:
        after = net.state_dict()
        kept = [key for key in after if key.startswith(("stem.", "stages.0.", "stages.1."))]
        assert len(kept) > 30
        assert all(torch.equal(after[key], before[key]) for key in kept)
        moved = [key for key in after if key.startswith("stages.") and key not in kept]
        assert any(not torch.equal(after[key], before[key]) for key in moved)
        # An epoch at these rates changes weights by a few percent; noise would share nothing.
        weights = [key for key in moved if before[key].ndim == 4]
        same = [
            torch.cosine_similarity(after[key].flatten(), before[key].flatten(), 0)
            for key in weights
        ]
        assert min(same) > 0.5


def test_every_network_of_a_method_begins_alike_but_for_its_classifier(tmp_path: Path) -> None:
    seen: list[EfficientNetLite] = []

    def own(run: Run, config: cross_entropy.Config) -> Any:
        seen.extend(run.network() for _ in range(2))  # type: ignore[misc]
        return cross_entropy.train(run, config)

    config = read_preset(
        cross_entropy.Config, "cross_entropy", "small", settings={**TUNED, **BRIEF}
    )
    drpl.train(coloured(), method=own, config=config, out=tmp_path, quiet=True)
    (one, two), before = (net.state_dict() for net in seen), release().state_dict()
    for key, tensor in one.items():
        assert torch.equal(tensor, two[key]) != (key == "classify.weight" or key == "classify.bias")
        assert key.startswith("classify.") or torch.equal(tensor, before[key])


def test_frozen_parts_stay_in_evaluation() -> None:
    net = lite0((3, 32, 32), 3, 0)
    net.freeze(2)
    net.train()
    assert [net.stem.training, *(stage.training for stage in net.stages)][:3] == [
        *(False, False),
        True,
    ]
    assert not any(p.requires_grad for p in net.stages[0].parameters())
    assert all(p.requires_grad for p in net.stages[1].parameters())
    with pytest.raises(ConfigError, match="has 9 parts; 10 cannot be frozen"):
        net.freeze(10)


def test_one_channel_is_seen_as_three_alike() -> None:
    grey, colour = lite0((1, 32, 32), 1000, 0).eval(), release().eval()
    load_weights(grey, "lite0")
    x = torch.randn(4, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(grey(x), colour(x.expand(-1, 3, -1, -1)), atol=1e-3)


def test_it_resumes_to_the_last_bit(tmp_path: Path) -> None:
    experiment = drpl.Experiment.build(
        coloured(), method="cross_entropy", preset="small", settings={**TUNED, **BRIEF}
    )
    whole = drpl.Execution(tmp_path / "whole", save_every=0, quiet=True)
    broken = replace(whole, folder=tmp_path / "broken", on_epoch=KillInSecondEpoch())
    drpl.execute(experiment, whole)
    with pytest.raises(Killed):
        drpl.execute(experiment, broken)
    drpl.execute(experiment, replace(broken, on_epoch=None))
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "broken"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"network": "resnet18"}, "no pretrained weights for network 'resnet18'; known are lite0,"),
        ({"network": "auto"}, "no pretrained weights for network 'auto'"),
        ({"network": "timm:resnet50"}, "and timm:NAME@FILE"),
        ({"pretrained": False}, "frozen parts would keep random weights"),
        ({"frozen": 11}, "has 9 parts"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(DrplError, match=sentence):
        tuned(tmp_path, **BRIEF, **settings)


def test_other_channels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one or three channels, not of 4"):
        drpl.train(
            coloured(4),
            method="cross_entropy",
            settings={**TUNED, **BRIEF},
            out=tmp_path,
            quiet=True,
        )
