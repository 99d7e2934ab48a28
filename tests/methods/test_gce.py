"""Generalised cross-entropy, plain and truncated."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.methods import gce
from drpl.training.evaluate import label_losses
from tests.support.equations import LABELS, LOGITS, check_gradient, check_hopeless
from tests.support.stages import make_feed, make_net
from tests.support.tiny import make_schedule, read_preset, tiny_config, tiny_network


def gce_loss(logits: Tensor, labels: Tensor, q: float = 0.7) -> Tensor:
    return gce.generalised_loss(-label_losses(logits.log_softmax(1), labels), q).mean()


def test_generalised_cross_entropy_lies_between_two_losses() -> None:
    p = LOGITS.softmax(1).gather(1, LABELS[:, None])
    assert torch.allclose(gce_loss(LOGITS, LABELS, 1.0), (1 - p).mean())
    plain = nn.functional.cross_entropy(LOGITS, LABELS)
    assert torch.allclose(gce_loss(LOGITS, LABELS, 1e-9), plain)


def make_stage(**settings: Any) -> gce.Generalised:
    schedule = make_schedule(1, (1, 0.1))
    config = gce.Config(schedule=schedule, pretrain_schedule=schedule, start="last", **settings)
    return gce.Generalised(make_net(), torch.arange(24) % 3, config)


def test_only_probable_labels_count_when_truncated() -> None:
    log_probs = torch.tensor([[0.6, 0.4], [0.5, 0.5], [0.1, 0.9]]).log()
    assert gce.probable(log_probs, torch.tensor([0, 0, 0]), 0.5).tolist() == [True, False, False]
    assert float(gce.generalised_loss(torch.tensor(0.5).log(), 0.7)) == pytest.approx(
        0.54918, abs=5e-6
    )
    stage = make_stage(truncate=True, k=0.4, prune_from=2)
    p = make_feed(2).predict_all(stage.net).exp()[torch.arange(24), stage.labels]
    assert 0 < int((p > 0.4).sum()) < 24
    (terms,) = stage.epoch(make_feed(1))
    whole = ((1 - p**0.7) / 0.7 - (1 - 0.4**0.7) / 0.7).mean()
    assert torch.allclose(terms["gce"], whole)  # all count at first
    (terms,) = stage.epoch(make_feed(2))
    assert torch.equal(stage.weights, (p > 0.4).float())
    kept = ((p > 0.4) * ((1 - p**0.7) / 0.7 - (1 - 0.4**0.7) / 0.7)).mean()
    assert torch.allclose(terms["gce"], kept)


def test_weights_are_decided_anew_every_tenth_epoch() -> None:
    stage = make_stage(truncate=True, prune_from=3)
    decided = []
    for epoch in range(1, 25):
        stage.weights.fill_(7)
        list(stage.epoch(make_feed(epoch)))
        if not bool((stage.weights == 7).all()):
            decided.append(epoch)
    assert decided == [3, 13, 23]


def test_nothing_is_left_out_unless_asked() -> None:
    stage = make_stage(prune_from=1)
    (terms,) = stage.epoch(make_feed(1))
    assert bool((stage.weights == 1).all())
    p = make_feed(1).predict_all(stage.net).exp()[torch.arange(24), stage.labels]
    assert torch.allclose(terms["gce"], ((1 - p**0.7) / 0.7).mean())


def test_the_loss_by_hand() -> None:
    assert float(gce_loss(LOGITS, LABELS)) == pytest.approx(0.287576, abs=5e-7)
    check_gradient(gce_loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hopeless_samples_give_finite_losses_and_gradients(dtype: torch.dtype) -> None:
    check_hopeless(gce_loss, dtype)


@pytest.mark.parametrize(
    "settings", [{"truncate": True, "prune_from": 2, "prune_every": 1}, {"start": "best"}]
)
def test_other_choices_learn_too(
    settings: dict[str, Any], tiny: DatasetSplits, tmp_path: Path
) -> None:
    config = tiny_config("gce", 12, settings)
    result = drpl.train(
        tiny,
        method="gce",
        config=config,
        network=tiny_network,
        noise="uniform:0.3",
        out=tmp_path,
        quiet=True,
    )
    assert (result.accuracy["last"] or 0) > 80


def test_presets_follow_the_paper() -> None:
    c = read_preset(gce.Config, "gce", "cifar10")
    assert (c.q, c.truncate, c.k, c.schedule.epochs) == (0.7, False, 0.5, 120)
