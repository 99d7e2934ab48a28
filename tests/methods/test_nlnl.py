"""Negative learning: what a label is not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.detection.evidence import Evidence
from drpl.methods import nlnl
from drpl.randomness import rng
from drpl.training.losses import one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, scale_weights
from tests.support.tiny import read_preset, tiny_config, tiny_network

LABELS = torch.arange(24) % 3
LOGITS = torch.tensor([[2.0, 0, 0], [0, 1, -1]])


def make_stage(labels: Tensor = LABELS, **settings: Any) -> nlnl.Negative:
    settings = {"select_from": 3, "positive_from": 5} | settings
    config = read_preset(nlnl.Config, "nlnl", "cifar10", settings=settings)
    return nlnl.Negative(make_net(), labels, 3, config)


def trusting(trust: Tensor, **settings: Any) -> nlnl.Negative:
    """A stage that remembers to have given this probability to each label."""
    stage = make_stage(**settings)
    rest = ((1 - trust) / 2)[:, None].expand(24, 3)
    for slot, sign in ((0, -1), (1, 1)):  # the mean counts, not the single epochs
        stage.recent[slot] = rest.scatter(1, LABELS[:, None], trust[:, None] + sign * 0.05)
        stage.visited[slot] = True
    return stage


def test_the_loss_of_negative_learning() -> None:
    each = nlnl.negative(LOGITS.softmax(1), torch.tensor([[1], [0]]))
    assert each.tolist() == pytest.approx([0.112617, 0.280678], abs=5e-7)
    two = nlnl.negative(LOGITS.softmax(1), torch.tensor([[1, 2], [0, 0]]))
    assert two.tolist() == pytest.approx([2 * 0.112617, 2 * 0.280678], abs=1e-6)
    sure = nlnl.negative(torch.tensor([[1.0, 0, 0]]), torch.tensor([[0]]))
    assert float(sure) == pytest.approx(-np.log(1e-5), rel=1e-4)


def test_complementary_labels_are_wrong_and_even() -> None:
    labels = torch.arange(20_000) % 5
    wrong = nlnl.draw_complements(labels, 5, 3, rng("wrong"))
    assert wrong.shape == (20_000, 3)
    assert not (wrong == labels[:, None]).any()
    steps = ((wrong - labels[:, None]) % 5).flatten().bincount(minlength=5)
    assert steps[0] == 0
    assert torch.allclose(steps[1:].double(), torch.tensor(15_000.0).double(), rtol=0.03)
    assert nlnl.draw_complements(torch.tensor([0, 1]), 2, 4, rng()).tolist() == [[1] * 4, [0] * 4]


@pytest.mark.parametrize(("epoch", "least"), [(1, 0.0), (2, 0.0), (3, 1 / 3), (4, 1 / 3)])
def test_negative_learning_from_those_that_are_not_doubted(epoch: int, least: float) -> None:
    trust = torch.linspace(0.06, 0.94, 24)
    stage = trusting(trust, complements=2)
    x, i = first_batch(epoch)
    wrong = nlnl.draw_complements(LABELS[i], 3, 2, make_feed(epoch).rng)
    with torch.no_grad():
        each = nlnl.negative(stage.net(x).softmax(1), wrong)
    wanted = each[trust[i] >= least].mean()
    assert pass_epoch(stage, make_feed(epoch)) == [
        {"negative": pytest.approx(float(wanted), rel=1e-5)}
    ]


def test_positive_learning_from_the_trusted() -> None:
    trust = torch.linspace(0.06, 0.94, 24)
    x, i = first_batch(5)
    for confident in (0.5, 0.8):
        stage = trusting(trust, confident=confident)
        with torch.no_grad():
            each = functional.cross_entropy(stage.net(x), LABELS[i], reduction="none")
        wanted = each[trust[i] >= confident].mean()
        assert pass_epoch(stage, make_feed(5)) == [
            {"positive": pytest.approx(float(wanted), rel=1e-5)}
        ]
    assert pass_epoch(trusting(torch.full((24,), 0.3)), make_feed(5)) == [{"positive": 0.0}]


def test_rare_classes_weigh_more() -> None:
    labels = torch.tensor([0] * 12 + [1] * 8 + [2] * 4)
    stage = make_stage(labels)
    assert stage.weights.tolist() == [1, 1.5, 3]
    x, i = first_batch(1)
    wrong = nlnl.draw_complements(labels[i], 3, 1, make_feed(1).rng)
    with torch.no_grad():
        each = nlnl.negative(stage.net(x).softmax(1), wrong)
        positive = functional.cross_entropy(stage.net(x), labels[i], stage.weights)
    wanted = (stage.weights[labels[i]] * each).mean()
    assert pass_epoch(stage, make_feed(1))[0]["negative"] == pytest.approx(float(wanted), rel=1e-5)
    stage.recent[0], stage.visited[0] = one_hot(labels, 3), True
    assert pass_epoch(stage, make_feed(5))[0]["positive"] == pytest.approx(
        float(positive), rel=1e-5
    )


def test_recent_predictions_of_all_samples_are_remembered() -> None:
    stage = make_stage(window=2)
    seen = []
    for epoch in (4, 5, 6):
        x, i = first_batch(epoch)
        p = torch.zeros(24, 3)
        with torch.no_grad():
            p[i] = stage.net(x).softmax(1)
        seen.append(p)
        pass_epoch(stage, make_feed(epoch))
        scale_weights(stage, 1.5)
    [(_, mean, known)] = stage.mean_recent()
    assert known.all()
    assert torch.allclose(mean, (seen[1] + seen[2]) / 2, atol=1e-6)


def test_negative_learning_judges_by_the_recent_predictions(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    wanted = tiny_config("nlnl", 6)
    more: dict[str, Any] = {"out": tmp_path, "track_every": 2, "quiet": True}
    result = drpl.train(
        tiny, method="nlnl", config=wanted, network=tiny_network, noise="uniform:0.3", **more
    )
    evidence = Evidence.read(tmp_path / "evidence" / "train.npz")
    assert evidence.losses.shape == evidence.margins.shape == (3, 72)
    with np.load(tmp_path / "samples.npz") as samples:
        given = torch.from_numpy(samples["given"])
        trust = evidence.probs.gather(1, given[:, None]).squeeze(1)
        assert np.allclose(samples["p_noisy"], 1 - trust.numpy())
        assert np.array_equal(samples["flagged"], trust.numpy() < 0.5)
        assert np.allclose(samples["loss"], -trust.log().numpy(), atol=1e-6)
        assert np.allclose(samples["loss"], evidence.now.numpy())
    record = json.loads((tmp_path / "splits" / "train.json").read_text())
    assert (record["threshold"], record["mixture"]) == (0.5, None)
    assert result.summary["flagged"] == record["unlabelled"]


def test_the_gradient_is_that_of_the_loss() -> None:
    logits = torch.randn(6, 4, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    wrong = (torch.arange(6)[:, None] + 1) % 4
    assert gradcheck(lambda z: nlnl.negative(z.softmax(1), wrong), logits)


def test_presets_follow_the_paper() -> None:
    c = read_preset(nlnl.Config, "nlnl", "cifar10")
    assert (c.select_from, c.positive_from, c.schedule.epochs) == (721, 1441, 2160)
    assert c.complements == 1
    assert read_preset(nlnl.Config, "nlnl", "cifar100").complements == 110
