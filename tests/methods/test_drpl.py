"""DRPL as a whole: two stages judge, a third learns."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.detection.evidence import Evidence
from drpl.files import read_arrays
from drpl.methods import drpl as method
from drpl.training import checkpoint
from tests.support.killing import Killed, KillInSecondEpoch
from tests.support.tiny import in_every_schedule, read_preset, tiny_config, tiny_network

FAST = {
    **in_every_schedule("drpl", {"cycle": True, "nesterov": True, "weight_decay": 5e-4}),
    "flip": True,
    **dict.fromkeys(("pool", "mean_of_epochs", "mirrored", "warm_start"), True),
}


def test_regularisers_have_their_weights_by_role() -> None:
    """Entropy 0.4, prior 0.8: swapped they would train too, silently."""
    config = read_preset(method.Config, "drpl", "cifar10")
    assert (config.ssl.prior, config.ssl.entropy) == (0.8, 0.4)
    assert (config.relabel.prior, config.relabel.entropy) == (0.8, 0.4)


def test_the_papers_schedules() -> None:
    """130 + 10 + 175 + 10 + 300 epochs on CIFAR-10."""
    c = read_preset(method.Config, "drpl", "cifar10")
    parts = (
        c.relabel_schedule,
        c.warmup_schedule,
        c.detect_schedule,
        c.warmup_schedule,
        c.final_schedule,
    )
    assert [part.epochs for part in parts] == [130, 10, 175, 10, 300]
    assert sum(part.epochs for part in parts) == 625
    assert c.relabel_schedule.lr_at(74) == 0.1
    assert c.relabel_schedule.lr_at(75) == 0.01
    assert (c.first_threshold, c.second_threshold, c.relabel.begin) == (0.1, 0.5, 70)
    im = read_preset(method.Config, "drpl", "imagenet32")
    assert (im.first_threshold, im.relabel.begin, im.relabel_schedule.epochs) == (0.05, 40, 100)
    wv = read_preset(method.Config, "drpl", "webvision")
    assert (wv.detect_schedule.epochs, wv.final_schedule.epochs) == (150, 200)
    assert read_preset(method.Config, "drpl", "cifar10", "released").ssl.warmup == "none"
    for preset in ("cifar10", "cifar100", "imagenet32", "imagenet64", "webvision"):
        assert read_preset(method.Config, "drpl", preset).min_labelled == 0
    assert read_preset(method.Config, "drpl", "small").min_labelled > 0


def test_the_overlay_literal_takes_away_what_is_ours() -> None:
    """Over every preset; over those of the paper it changes nothing."""
    for preset in ("small", "vectors", "digits", "mini", "finetune"):
        ours = read_preset(method.Config, "drpl", preset)
        literal = read_preset(method.Config, "drpl", preset, "literal")
        parts = (literal.second_threshold, literal.min_labelled, literal.pool)
        assert parts == (0.5, 0.0, False)
        assert literal != ours
        as_ours = {name: getattr(ours, name) for name in ("second_threshold", "pool")}
        assert literal.model_copy(update={**as_ours, "min_labelled": ours.min_labelled}) == ours
    for preset in ("cifar10", "cifar100", "imagenet32", "imagenet64", "webvision"):
        paper = read_preset(method.Config, "drpl", preset)
        assert read_preset(method.Config, "drpl", preset, "literal") == paper


def test_detect_stops_after_the_second_split_and_train_goes_on(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "config": tiny_config("drpl", 2),
        "network": tiny_network,
        "noise": "uniform:0.3",
        "out": tmp_path,
        "quiet": True,
    }
    found = drpl.detect(tiny, **arguments)
    stages = [row["stage"] for row in found.history]
    assert set(stages) == {"relabel", "detect-warmup", "detect"}
    assert found.summary["goal"] == "detect"
    judged = (tmp_path / "splits" / "detect.npz").read_bytes()
    whole = drpl.train(tiny, **arguments)
    assert whole.summary["goal"] == "train"
    assert [row["stage"] for row in whole.history][: len(stages)] == stages
    assert (tmp_path / "splits" / "detect.npz").read_bytes() == judged
    assert [stage["stage"] for stage in whole.summary["stages"]] == ["relabel", "detect"]


@pytest.mark.parametrize(
    "setting", [{"ssl": {"warmup": "none"}}, {"track": "test"}, {"lookup": True}]
)
def test_other_choices_work(setting: dict[str, Any], tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("drpl", 2, setting)
    assert drpl.train(
        tiny, config=config, network=tiny_network, noise="uniform:0.3", out=tmp_path, quiet=True
    ).detection


def test_too_few_labelled_samples_are_said(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("drpl", 1, {"first_threshold": 0.0, "min_labelled": 0.0})
    with pytest.raises(drpl.DrplError, match="too few to learn from; set min_labelled"):
        drpl.train(
            tiny, config=config, network=tiny_network, noise="uniform:0.3", out=tmp_path, quiet=True
        )


def test_losses_of_all_networks_can_be_pooled(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("drpl", 3, {"pool": True, "second_threshold": 0.3})
    result = drpl.train(
        tiny, config=config, network=tiny_network, noise="uniform:0.3", out=tmp_path, quiet=True
    )
    names = ["relabel", "detect", "pooled", "pooled-final"]
    assert [stage["stage"] for stage in result.summary["stages"]] == names
    judged = {name: read_arrays(tmp_path / "splits" / f"{name}.npz")["losses"] for name in names}
    seen = {
        name: read_arrays(tmp_path / "evidence" / f"{name}.npz")["losses"][-1]
        for name in ("relabel", "detect", "final")
    }
    assert np.allclose(judged["pooled"], (seen["relabel"] + seen["detect"]) / 2)
    assert np.allclose(judged["pooled-final"], np.mean(list(seen.values()), 0))
    assert np.allclose(result.samples["loss"], judged["pooled-final"], rtol=1e-4)


def test_an_estimated_prior_pulls_less_where_classes_are_unequal(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    rare = (tiny.train.labels == 2).nonzero().flatten()[5:].tolist()
    kept = torch.tensor([i for i in range(len(tiny.train)) if i not in rare])
    unequal = replace(tiny, train=tiny.train.select(kept))
    pulls = {}
    for prior in ("uniform", "estimate"):
        config = tiny_config("drpl", 3, {"prior": prior})
        result = drpl.train(
            unequal, config=config, network=tiny_network, out=tmp_path / prior, quiet=True
        )
        pulls[prior] = {row["stage"]: row["terms"]["prior"] for row in result.history}
    assert len(pulls["estimate"]) == 5
    for stage, pull in pulls["estimate"].items():  # the pull to equal classes is gone
        assert pull < pulls["uniform"][stage]


def train_fast(data: DatasetSplits, out: Path, **more: Any) -> drpl.Result:
    experiment = drpl.Experiment.build(
        data, config=tiny_config("drpl", 3, FAST), network=tiny_network, noise="uniform:0.3"
    )
    execution = drpl.Execution(folder=out, save_every=0, quiet=True, **more)
    return drpl.execute(experiment, execution)


def test_a_warm_start_goes_on_with_the_network_before(tiny: DatasetSplits, tmp_path: Path) -> None:
    """A stage at a rate of next to nothing stays what its network was."""
    still = {"lr": [[1, 1e-12]], "weight_decay": 0.0}
    config = tiny_config("drpl", 3, {"warm_start": True, "detect_schedule": still})
    result = drpl.detect(
        tiny, config=config, network=tiny_network, noise="uniform:0.3", out=tmp_path, quiet=True
    )
    assert {row["stage"] for row in result.history} == {"relabel", "detect"}  # no warm-up
    ends = [checkpoint.read(tmp_path / "stages" / f"{name}.pt") for name in ("relabel", "detect")]
    first, second = (end.stage for end in ends if end)
    assert torch.allclose(first["net.0.weight"], second["net.0.weight"], atol=1e-6)


def test_the_fast_form_resumes_to_the_last_bit(tiny: DatasetSplits, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train_fast(tiny, whole)
    attempts = 0
    while not (cut / "result.json").exists():
        attempts += 1
        try:
            train_fast(tiny, cut, on_epoch=KillInSecondEpoch())
        except Killed:
            assert attempts < 50
    assert attempts > 2
    for name in ("model.safetensors", "samples.csv", "splits/pooled.npz"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


def test_labels_are_judged_by_the_mean_of_epochs_and_views(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    result = train_fast(tiny, tmp_path)
    assert (result.detection or {})["auroc"] == pytest.approx(1, abs=0.05)
    with np.load(tmp_path / "samples.npz") as table:
        labels = torch.from_numpy(table["given"]).long()
    for stage in ("relabel", "detect"):
        seen = Evidence.read(tmp_path / "evidence" / f"{stage}.npz")
        assert seen.mean_probs is not None
        expected = -((seen.probs + seen.mean_probs) / 2).log()[torch.arange(len(labels)), labels]
        with np.load(tmp_path / "splits" / f"{stage}.npz") as split:
            assert np.allclose(split["losses"], expected, rtol=1e-4, atol=1e-5)


def test_mirrored_views_are_averaged_where_training_mirrors(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    def see(name: str, **settings: bool) -> torch.Tensor:
        config = tiny_config("drpl", 2, {"track": "test", **settings})
        drpl.detect(tiny, config=config, network=tiny_network, out=tmp_path / name, quiet=True)
        return Evidence.read(tmp_path / name / "evidence" / "relabel.npz").probs

    one, two = see("one", flip=True), see("two", flip=True, mirrored=True)
    assert not torch.allclose(one, two, atol=1e-4)
    assert torch.allclose(two.sum(1), torch.ones(len(two)), atol=1e-5)
    assert torch.equal(see("plain", flip=False), see("same", flip=False, mirrored=True))
