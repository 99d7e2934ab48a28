"""The determinant loss."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.methods import dmi
from drpl.training.losses import one_hot
from tests.support.equations import NOISE, check_gradient, check_hopeless
from tests.support.stages import make_feed, make_net
from tests.support.tiny import read_preset, tiny_config, tiny_network

FOUR = torch.tensor([[2.0, 0, 0], [0, 2, 0], [0, 0, 2], [1, 0, 0]], dtype=torch.float64)
FOUR_LABELS = torch.tensor([0, 1, 2, 0])


def dmi_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return dmi.dmi(logits, one_hot(labels, 3))


def test_class_dependent_noise_shifts_the_determinant_loss_and_nothing_else() -> None:
    """In expectation O becomes T^T O, whose determinant is det T times as large."""
    targets = one_hot(FOUR_LABELS, 3).double()
    plain, noisy = ((-dmi.dmi(FOUR, t)).exp() - 0.001 for t in (targets, targets @ NOISE))
    assert float(plain) > 0.5
    assert torch.allclose(noisy, plain * torch.linalg.det(NOISE))


def test_a_missing_class_leaves_no_gradient() -> None:
    logits = FOUR.clone().requires_grad_()
    loss = dmi_loss(logits, torch.tensor([0, 1, 1, 0]))
    assert float(loss.detach()) == pytest.approx(-np.log(0.001))
    assert torch.equal(torch.autograd.grad(loss, logits)[0], torch.zeros_like(FOUR))


def test_many_classes_do_not_overflow() -> None:
    """128 to the power of 40 is beyond float32."""
    labels = torch.arange(40).repeat(128)
    loss = dmi.dmi(200 * one_hot(labels, 40), one_hot(labels, 40))
    assert float(loss) == pytest.approx(-40 * np.log(128))


def test_incomplete_batches_are_skipped_but_not_the_only_one() -> None:
    stage = dmi.Informative(make_net(), one_hot(torch.arange(12) % 3, 3))
    assert (
        len(list(make_feed(1, 5, samples=12)())) == 2
    )  # five and five; two are too few for anybody
    assert len(list(make_feed(1, 12, samples=12)())) == 1
    sizes = [(5, 2), (12, 1), (100, 1)]
    assert [len(list(stage.epoch(make_feed(1, batch, samples=12)))) for batch, _ in sizes] == [
        n for _, n in sizes
    ]
    more = dmi.Informative(make_net(), one_hot(torch.arange(20) % 3, 3))
    thirteen = list(more.epoch(make_feed(1, 13, samples=20)))
    assert len(thirteen) == 1  # but not the seven that are left


@pytest.mark.parametrize(("size", "said"), [(29, True), (30, False)])
def test_small_batches_are_said(size: int, said: bool, tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("dmi", 2, {"schedule": {"batch_size": size}})
    result = drpl.train(
        tiny,
        method="dmi",
        config=config,
        network=tiny_network,
        noise="uniform:0.3",
        out=tmp_path,
        quiet=True,
    )
    notes = [note for stage in result.summary["stages"] for note in stage["notes"]]
    assert any("give schedule.batch_size at least 30" in note for note in notes) == said


def test_the_loss_by_hand() -> None:
    assert float(dmi_loss(FOUR, FOUR_LABELS)) == pytest.approx(0.243842, abs=5e-7)
    check_gradient(dmi_loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hopeless_samples_give_finite_losses_and_gradients(dtype: torch.dtype) -> None:
    check_hopeless(dmi_loss, dtype)


def test_presets_follow_the_paper() -> None:
    c = read_preset(dmi.Config, "dmi", "cifar100").schedule
    assert c.epochs == 100
    assert {c.lr_at(epoch) for epoch in range(1, 101)} == {1e-6}
    assert read_preset(dmi.Config, "dmi", "cifar10", "released").schedule.batch_size == 256
