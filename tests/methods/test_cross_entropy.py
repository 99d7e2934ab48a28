"""The baseline, and the methods that go on from it."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.detection.evidence import Evidence
from drpl.methods.cross_entropy import Classify
from drpl.registry import METHODS
from drpl.training import checkpoint
from drpl.training.losses import one_hot
from drpl.training.schedule import Schedule
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch
from tests.support.tiny import lr, read_preset, tiny_config

LABELS = torch.arange(24) % 3
PRETRAINED = ("gce", "dmi")


def test_every_label_is_believed() -> None:
    stage = Classify(make_net(), one_hot(LABELS, 3))
    x, i = first_batch(1)
    with torch.no_grad():
        wanted = float(functional.cross_entropy(stage.net(x), LABELS[i]))
    assert pass_epoch(stage, make_feed(1)) == [{"classify": pytest.approx(wanted, rel=1e-5)}]
    assert torch.equal(stage.targets, one_hot(LABELS, 3))


def test_losses_can_be_tracked_over_epochs(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("cross_entropy", 5)
    drpl.train(tiny, method="cross_entropy", config=config, out=tmp_path, track_every=2, quiet=True)
    assert Evidence.read(tmp_path / "evidence" / "train.npz").losses.shape == (3, 72)


@pytest.mark.parametrize("method", PRETRAINED)
def test_methods_go_on_from_the_epoch_they_are_given(
    method: str, tiny: DatasetSplits, tmp_path: Path
) -> None:
    """With a rate near zero the second stage leaves the weights as they were."""
    settings = {
        "pretrain_schedule": lr((1, 0.05), (5, 0.4)),  # learns, then unlearns
        "schedule": {"epochs": 1, **lr((1, 1e-12))},
    }
    weights = []
    for start in ("best", "last"):
        config = tiny_config(method, 8, settings, {"start": start})
        out = tmp_path / start
        drpl.train(tiny, method=method, config=config, noise="uniform:0.3", out=out, quiet=True)
        first, second = (checkpoint.read(out / "stages" / f"{s}.pt") for s in ("pretrain", "train"))
        assert first is not None
        assert second is not None
        weights.append(first.stage["net.classify.weight"])
        assert torch.allclose(weights[-1], second.stage["net.classify.weight"])
    assert not torch.equal(*weights)


def test_only_the_papers_presets_look_at_the_test_set() -> None:
    for method in PRETRAINED:
        schema = METHODS[method].load().Config
        starts = {
            preset: read_preset(schema, method, preset).start
            for preset in ("cifar10", "cifar100", "imagenet32", "webvision", "small", "digits")
        }
        peeking = {preset for preset, start in starts.items() if start == "best"}
        assert peeking == {"cifar10", "cifar100", "imagenet32", "webvision"}


@pytest.mark.parametrize("preset", ["digits", "small"])
@pytest.mark.parametrize("method", ["reed", "forward", "oracle_forward", "gce", "dmi"])
def test_small_presets_cost_no_more_than_the_baseline(method: str, preset: str) -> None:
    def epochs(name: str) -> int:
        config = read_preset(METHODS[name].load().Config, name, preset)
        return sum(value.epochs for _, value in config if isinstance(value, Schedule))

    assert epochs(method) == epochs("cross_entropy") == 60
