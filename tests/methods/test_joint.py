"""Joint optimisation: targets become the recent predictions."""

import torch
from torch import nn

from drpl.methods.joint import Relabel, Relabelling
from drpl.training.losses import one_hot
from tests.support.stages import first_batch, make_feed, make_net, pass_epoch, scale_weights

LABELS = torch.arange(24) % 3


def test_relabelling_starts_at_the_end_of_its_epoch_and_averages_what_it_has() -> None:
    stage = Relabel(make_net(), LABELS, 3, Relabelling(begin=2, window=10))
    given = one_hot(LABELS, 3)
    pass_epoch(stage, make_feed(1))
    assert torch.equal(stage.targets, given)
    first = stage.recent[1].clone()
    scale_weights(stage, -2)
    pass_epoch(stage, make_feed(2))
    assert torch.allclose(stage.targets, (first + stage.recent[2]) / 2)  # two of ten slots


def test_old_predictions_leave_the_window() -> None:
    stage = Relabel(make_net(), LABELS, 3, Relabelling(begin=1, window=2))
    seen = []
    for epoch in (1, 2, 3):
        scale_weights(stage, 1.5)
        x, i = first_batch(epoch)
        with torch.no_grad():
            seen.append(torch.zeros(24, 3).index_copy(0, i, stage.net(x).softmax(1)))
        pass_epoch(stage, make_feed(epoch))
    assert not torch.allclose(seen[0], seen[2])
    assert torch.allclose(stage.targets, (seen[1] + seen[2]) / 2)
    assert torch.allclose(stage.targets.sum(1), torch.ones(24))


def test_only_visited_samples_are_relabelled() -> None:
    stage = Relabel(make_net(), LABELS, 3, Relabelling(begin=1))
    pass_epoch(stage, make_feed(1, 22))  # the rest of two is skipped
    changed = (stage.targets != one_hot(LABELS, 3)).any(1)
    assert int(changed.sum()) == 22


def test_a_prior_follows_from_the_labels() -> None:
    labels = torch.tensor([0] * 6 + [1] * 2 + [2])
    net, relabelling = nn.Linear(1, 3), Relabelling(begin=1)
    assert Relabel(net, labels, 3, relabelling).shares is None
    shares = Relabel(net, labels, 3, relabelling, "estimate").shares
    assert shares is not None
    torch.testing.assert_close(shares, torch.tensor([6.0, 2, 1]) / 9)
