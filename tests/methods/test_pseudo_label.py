"""Pseudo-labels: labelled samples keep their target, others take the prediction."""

import torch

from drpl.methods import pseudo_label
from drpl.randomness import rng
from drpl.training.losses import one_hot
from tests.support.stages import make_feed, make_net, pass_epoch

LABELS = torch.arange(24) % 3


def test_labelled_samples_keep_their_target_and_others_take_the_prediction() -> None:
    clean = torch.arange(24) < 6
    config = pseudo_label.SemiSupervised(forget=0.0)
    stage = pseudo_label.PseudoLabel(make_net(), one_hot(LABELS, 3), clean, config)
    with torch.no_grad():
        table = torch.zeros(24, 3)
        for x, i in make_feed(1)():
            table[i] = stage.net(x).softmax(1)
    pass_epoch(stage, make_feed(1))
    assert torch.equal(stage.targets[:6], one_hot(LABELS, 3)[:6])
    assert torch.allclose(stage.targets[6:], table[6:])  # from images that are not mixed


def test_a_fifth_of_the_unlabelled_is_made_uniform_anew_each_epoch() -> None:
    predictions = torch.eye(5).repeat(20, 1)
    chosen = []
    for epoch in (1, 2):
        table = pseudo_label.forget_some(predictions.clone(), 0.2, rng(1, epoch))
        uniform = (table == 0.2).all(1)
        assert int(uniform.sum()) == 20
        assert torch.equal(table[~uniform], predictions[~uniform])
        chosen.append(uniform)
    assert not torch.equal(*chosen)


def test_warm_up_sees_labelled_samples_only_and_changes_no_target() -> None:
    clean = torch.arange(24) < 7
    targets = one_hot(LABELS, 3)
    settings = pseudo_label.SemiSupervised(alpha=1e-9)  # images are themselves or their partner
    stage = pseudo_label.WarmUp(make_net(), targets.clone(), clean, settings)
    shown: list[torch.Tensor] = []
    stage.net.register_forward_pre_hook(lambda _, inputs: shown.append(inputs[0]))
    pass_epoch(stage, make_feed(1))
    assert torch.equal(stage.targets, targets)
    images = make_feed(1).images.load(torch.arange(24))
    seen = torch.cdist(torch.cat(shown), images).argmin(1)
    assert set(seen.tolist()) == set(range(7))
