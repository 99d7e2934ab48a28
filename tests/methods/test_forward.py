"""Forward correction: through a matrix that is estimated, or read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.errors import ConfigError
from drpl.methods import forward
from drpl.noise.confusion import Confusion
from drpl.randomness import rng
from drpl.training import checkpoint
from drpl.training.evaluate import label_losses
from drpl.training.losses import cross_entropy, one_hot
from tests.support.equations import LABELS, LOGITS, NOISE, check_gradient, check_hopeless
from tests.support.stages import first_batch, make_feed, make_net, scale_weights
from tests.support.tiny import read_preset, tiny_config, tiny_network


def forward_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return forward.forward_loss(logits, labels, NOISE.to(logits.dtype))


def test_the_loss_by_hand() -> None:
    assert float(forward_loss(LOGITS, LABELS)) == pytest.approx(0.536302, abs=5e-7)
    check_gradient(forward_loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hopeless_samples_give_finite_losses_and_gradients(dtype: torch.dtype) -> None:
    check_hopeless(lambda x, y: forward.forward_loss(x, y, NOISE.float()), dtype)


def test_correction_by_the_identity_is_cross_entropy() -> None:
    logits = 5 * torch.randn(50, 4, generator=rng("identity"), dtype=torch.float64)
    labels = torch.arange(50) % 4
    plain = nn.functional.cross_entropy(logits, labels)
    corrected = forward.forward_loss(logits, labels, torch.eye(4, dtype=torch.float64))
    assert torch.allclose(corrected, plain, rtol=0, atol=1e-14)


def test_a_label_that_the_matrix_calls_impossible_teaches_nothing() -> None:
    logits = LOGITS.clone().requires_grad_()
    impossible = torch.tensor([[0.0, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)
    loss = forward.forward_loss(logits, torch.tensor([0, 0]), impossible)
    assert bool(loss.isfinite())
    assert torch.autograd.grad(loss, logits)[0].abs().max() < 1e-12


def test_anchors_pass_over_the_highest_predictions_of_a_class() -> None:
    """Of 200 samples six are above the 97th percentile of each column; the seventh is taken."""
    p = torch.empty(200, 2, dtype=torch.float64)
    p[:, 0] = torch.linspace(0.001, 0.999, 200, dtype=torch.float64)
    p[:, 1] = 1 - p[:, 0]
    p = p[torch.randperm(200, generator=rng("anchors"))]
    before = p.clone()
    ranked = p[:, 0].sort().values
    found = forward.estimate_from_anchors(p, 0.03)
    assert torch.equal(p, before)
    assert found[0].tolist() == pytest.approx([float(ranked[-7]), 1 - float(ranked[-7])])
    assert found[1].tolist() == pytest.approx([float(ranked[6]), 1 - float(ranked[6])])
    largest = forward.estimate_from_anchors(p, 0.0)
    assert float(largest[0, 0]) == pytest.approx(0.999)
    assert torch.allclose(found.sum(1), torch.ones(2, dtype=torch.float64))


def test_an_outlier_of_one_class_can_be_the_whole_anchor_of_another() -> None:
    """Zeros written over the outliers of class 0 would end up in the row of class 1."""
    p = torch.tensor([[0.2, 0.2, 0.6]]).repeat(200, 1)
    p[:6] = torch.tensor([0.1, 0.8, 0.1])  # outliers of class 1
    p[6:12] = torch.tensor([0.45, 0.1, 0.45])  # outliers of class 0 ...
    p[9] = torch.tensor([0.45, 0.5, 0.05])  # ... of which one is next in line for class 1
    found = forward.estimate_from_anchors(p, 0.03)
    assert found[1].tolist() == pytest.approx([0.45, 0.5, 0.05])
    assert float(found[0, 0]) == pytest.approx(0.2)


@pytest.mark.parametrize("classes", [34, 100])
def test_with_many_classes_the_anchor_is_the_largest(classes: int) -> None:
    """Three percent of the samples would be the whole class."""
    p = (3 * torch.randn(classes * 20, classes, generator=rng("many"))).softmax(1)
    found = forward.estimate_from_anchors(p, 0.03)
    for c in (0, classes - 1):
        assert torch.allclose(found[c], p[p[:, c].argmax()])


def test_the_matrix_is_estimated_once_after_plain_epochs() -> None:
    stage = forward.Forward(make_net(), torch.arange(24) % 3, 3, 2, outliers=0.03)
    x, i = first_batch(1)
    (terms,) = stage.epoch(make_feed(1))
    targets = one_hot(stage.labels, 3)[i]
    assert torch.allclose(terms["forward"], cross_entropy(stage.net(x), targets))
    list(stage.epoch(make_feed(2)))
    assert torch.equal(stage.transition, torch.eye(3))
    estimate = forward.estimate_from_anchors(make_feed(3).predict_all(stage.net).exp(), 0.03)
    (terms,) = stage.epoch(make_feed(3))
    assert torch.allclose(stage.transition, estimate)
    scale_weights(stage, 3)
    (terms,) = stage.epoch(make_feed(4))
    assert torch.allclose(stage.transition, estimate)  # and never again
    by_matrix = (stage.net(x).softmax(1) @ estimate).log()
    assert torch.allclose(terms["forward"], label_losses(by_matrix, stage.labels[i]).mean())
    assert "transition" in stage.state_dict()


def test_a_matrix_can_be_given_in_a_file(tiny: DatasetSplits, tmp_path: Path) -> None:
    table = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    np.save(tmp_path / "t.npy", table)
    np.savetxt(tmp_path / "t.csv", table, delimiter=",")
    Confusion(torch.from_numpy(table), tiny.train.classes).write(tmp_path / "t.npz")
    for kind in ("npy", "csv", "npz"):
        assert np.allclose(forward.read_transition(str(tmp_path / f"t.{kind}"), 3), table)
    config = tiny_config("forward", 3, {"matrix": str(tmp_path / "t.npz")})
    out = tmp_path / "run"
    drpl.train(
        tiny,
        method="forward",
        config=config,
        network=tiny_network,
        noise="uniform:0.3",
        out=out,
        quiet=True,
    )
    kept = checkpoint.read(out / "stages" / "train.pt")
    assert kept is not None
    assert torch.allclose(kept.stage["transition"], torch.from_numpy(table).float())


def test_files_that_hold_no_matrix_are_said(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "words.npz", words=np.array(["a", "b"]))
    for name in ("empty.npy", "text.npz", "words.npz", "missing.csv"):
        with pytest.raises(ConfigError, match="cannot read a matrix from"):
            forward.read_transition(str(tmp_path / name), 3)
    np.save(tmp_path / "two.npy", np.eye(2))
    with pytest.raises(ConfigError, match="is for 2 classes, the data have 3"):
        forward.read_transition(str(tmp_path / "two.npy"), 3)


def test_another_estimate_learns_too(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("forward", 12, {"begin": 0, "outliers": 0.0})
    result = drpl.train(
        tiny,
        method="forward",
        config=config,
        noise="uniform:0.3",
        out=tmp_path,
        quiet=True,
    )
    assert (result.accuracy["last"] or 0) > 80


def test_presets_follow_the_paper() -> None:
    c = read_preset(forward.Config, "forward", "cifar10")
    assert (c.begin, c.schedule.epochs, c.schedule.lr_at(100)) == (50, 200, 0.01)
    web = read_preset(forward.Config, "forward", "webvision").schedule
    assert (web.epochs, web.lr_at(74), web.lr_at(120)) == (125, 0.1, 0.001)
