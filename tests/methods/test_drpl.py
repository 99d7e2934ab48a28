from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import drpl
from drpl.config.compose import compose
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.transforms import Normalise
from drpl.methods import drpl as method
from drpl.methods import pseudo_label
from drpl.methods.joint import Relabel, Relabelling
from drpl.randomness import rng
from drpl.training.feed import Feed
from drpl.training.losses import one_hot
from drpl.training.stage import Stage
from tests.conftest import tiny_config

LABELS = torch.arange(12) % 3


def feed(epoch: int, batch: int = 12) -> Feed:
    images = TensorImages(torch.randn(12, 4, generator=rng("x")))
    view = Normalise((0.0,) * 4, (1.0,) * 4)
    return Feed(images, view, view, batch, epoch, (1, "test"), torch.device("cpu"))


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, 3)


def passed(stage: Stage, epoch: int, batch: int = 12) -> None:
    for _ in stage.epoch(feed(epoch, batch)):
        pass


def test_relabelling_starts_at_the_end_of_its_epoch_and_averages_what_it_has() -> None:
    stage = Relabel(net(), LABELS, 3, Relabelling(begin=2, window=10))
    given = one_hot(LABELS, 3)
    passed(stage, 1)
    assert torch.equal(stage.targets, given)
    first = stage.recent[1].clone()
    with torch.no_grad():
        next(stage.net.parameters()).mul_(-2)
    passed(stage, 2)
    assert torch.allclose(stage.targets, (first + stage.recent[2]) / 2)  # two of ten slots


def test_old_predictions_leave_the_window() -> None:
    stage = Relabel(net(), LABELS, 3, Relabelling(begin=1, window=2))
    for epoch in (1, 2, 3):
        with torch.no_grad():
            next(stage.net.parameters()).mul_(1.5)
        passed(stage, epoch)
    x = next(iter(feed(3)()))[0][:0]
    assert len(x) == 0
    assert torch.allclose(stage.targets, (stage.recent[0] + stage.recent[1]) / 2)
    assert torch.allclose(stage.targets.sum(1), torch.ones(12))


def test_only_visited_samples_are_relabelled() -> None:
    stage = Relabel(net(), LABELS, 3, Relabelling(begin=1))
    passed(stage, 1, batch=8)  # the rest of four is skipped
    changed = (stage.targets != one_hot(LABELS, 3)).any(1)
    assert int(changed.sum()) == 8


def test_labelled_samples_keep_their_target_and_others_take_the_prediction() -> None:
    clean = torch.arange(12) < 6
    config = pseudo_label.SemiSupervised(forget=0.0)
    stage = pseudo_label.PseudoLabel(net(), one_hot(LABELS, 3), clean, config)
    with torch.no_grad():
        table = torch.zeros(12, 3)
        for x, i in feed(1)():
            table[i] = stage.net(x).softmax(1)
    passed(stage, 1)
    assert torch.equal(stage.targets[:6], one_hot(LABELS, 3)[:6])
    assert torch.allclose(stage.targets[6:], table[6:])  # from images that are not mixed


def test_a_fifth_of_the_unlabelled_is_made_uniform_anew_each_epoch() -> None:
    predictions = torch.eye(5).repeat(20, 1)
    chosen = []
    for epoch in (1, 2):
        table = pseudo_label.forgetful(predictions, 0.2, rng(1, epoch))
        uniform = (table == 0.2).all(1)
        assert int(uniform.sum()) == 20
        assert torch.equal(table[~uniform], predictions[~uniform])
        chosen.append(uniform)
    assert not torch.equal(*chosen)


def test_warm_up_sees_labelled_samples_only_and_changes_no_target() -> None:
    clean = torch.arange(12) < 7
    targets = one_hot(LABELS, 3)
    stage = pseudo_label.WarmUp(net(), targets.clone(), clean, pseudo_label.SemiSupervised())
    passed(stage, 1)
    assert torch.equal(stage.targets, targets)
    assert stage.labelled.tolist() == list(range(7))


def test_regularisers_have_their_weights_by_role() -> None:
    """Entropy 0.4, prior 0.8: swapped they would train too, silently."""
    config = compose(method.Config, "drpl", ["cifar10"], [])
    assert (config.ssl.prior, config.ssl.entropy) == (0.8, 0.4)
    assert (config.relabel.prior, config.relabel.entropy) == (0.8, 0.4)


def test_the_papers_schedules() -> None:
    """130 + 10 + 175 + 10 + 300 epochs on CIFAR-10."""
    c = compose(method.Config, "drpl", ["cifar10"], [])
    parts = (
        c.relabel_schedule,
        c.warmup_schedule,
        c.detect_schedule,
        c.warmup_schedule,
        c.final_schedule,
    )
    assert [part.epochs for part in parts] == [130, 10, 175, 10, 300]
    assert sum(part.epochs for part in parts) == 625
    assert c.relabel_schedule.rate(74) == 0.1
    assert c.relabel_schedule.rate(75) == 0.01
    assert (c.first_threshold, c.second_threshold, c.relabel.begin) == (0.1, 0.5, 70)
    im = compose(method.Config, "drpl", ["imagenet32"], [])
    assert (im.first_threshold, im.relabel.begin, im.relabel_schedule.epochs) == (0.05, 40, 100)
    wv = compose(method.Config, "drpl", ["webvision"], [])
    assert (wv.detect_schedule.epochs, wv.final_schedule.epochs) == (150, 200)
    assert compose(method.Config, "drpl", ["cifar10", "released"], []).ssl.warmup == "none"
    for preset in ("cifar10", "cifar100", "imagenet32", "imagenet64", "webvision"):
        assert compose(method.Config, "drpl", [preset], []).min_labelled == 0
    assert compose(method.Config, "drpl", ["small"], []).min_labelled > 0


def test_detect_stops_after_the_second_split_and_train_goes_on(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    arguments = {
        "config": tiny_config("drpl", 2),
        "noise": "uniform:0.3",
        "out": tmp_path,
        "quiet": True,
    }
    found = drpl.detect(tiny, **arguments)
    stages = [row["stage"] for row in found.history]
    assert set(stages) == {"relabel", "detect-warmup", "detect"}
    assert found.summary["goal"] == "detect"
    judged = (tmp_path / "splits" / "detect.npz").read_bytes()
    whole = drpl.train(tiny, **arguments)  # type: ignore[arg-type]
    assert whole.summary["goal"] == "train"
    assert [row["stage"] for row in whole.history][: len(stages)] == stages
    assert (tmp_path / "splits" / "detect.npz").read_bytes() == judged
    assert [stage["stage"] for stage in whole.summary["stages"]] == ["relabel", "detect"]


@pytest.mark.parametrize("setting", ["ssl.warmup='none'", "track='test'", "lookup=true"])
def test_other_choices_work(setting: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("drpl", 2, setting)
    assert drpl.train(tiny, config=config, noise="uniform:0.3", out=tmp_path, quiet=True).detection


def test_too_few_labelled_samples_are_said(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("drpl", 1, "first_threshold=0.0", "min_labelled=0.0")
    with pytest.raises(drpl.DrplError, match="too few to learn from; set min_labelled"):
        drpl.train(tiny, config=config, noise="uniform:0.3", out=tmp_path, quiet=True)


def test_both_stages_can_be_pooled(tiny: DatasetSplits, tmp_path: Path) -> None:
    settings = ("pool=true", "second_threshold=0.3")
    config = tiny_config("drpl", 3, *settings)
    result = drpl.train(tiny, config=config, noise="uniform:0.3", out=tmp_path, quiet=True)
    losses = {}
    for stage in ("relabel", "detect", "pooled"):
        with np.load(tmp_path / "splits" / f"{stage}.npz") as arrays:
            losses[stage] = arrays["losses"]
    assert np.allclose(losses["pooled"], (losses["relabel"] + losses["detect"]) / 2)
    assert [stage["stage"] for stage in result.summary["stages"]] == ["relabel", "detect", "pooled"]
    assert np.allclose(result.samples["loss"], losses["pooled"], rtol=1e-4)


def test_losses_can_be_tracked_over_epochs(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("cross_entropy", 5)
    drpl.train(tiny, method="cross_entropy", config=config, out=tmp_path, track_every=2, quiet=True)
    from drpl.detection.evidence import Evidence

    assert Evidence.read(tmp_path / "evidence" / "train.npz").losses.shape == (3, 72)


def test_a_prior_follows_from_the_labels_and_from_what_is_seen(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    labels = torch.tensor([0] * 6 + [1] * 2 + [2])
    net, relabelling = nn.Linear(1, 3), Relabelling(begin=1)
    assert Relabel(net, labels, 3, relabelling).shares is None
    shares = Relabel(net, labels, 3, relabelling, "estimate").shares
    assert shares is not None
    torch.testing.assert_close(shares, torch.tensor([6.0, 2, 1]) / 9)

    rare = (tiny.train.labels == 2).nonzero().flatten()[5:].tolist()
    kept = torch.tensor([i for i in range(len(tiny.train)) if i not in rare])
    unequal = replace(tiny, train=tiny.train.select(kept))
    pulls = {}
    for prior in ("uniform", "estimate"):
        config = tiny_config("drpl", 3, f"prior={prior}")
        result = drpl.train(unequal, config=config, out=tmp_path / prior, quiet=True)
        pulls[prior] = {row["stage"]: row["terms"]["prior"] for row in result.history}
    for stage, pull in pulls["estimate"].items():  # the pull to equal classes is gone
        assert pull < pulls["uniform"][stage]
