"""A running mean of a network's weights."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from drpl.training.ema import WeightAverage
from drpl.training.feed import Feed
from drpl.training.loop import step, train_epoch
from drpl.training.stage import Stage, Steps
from tests.support.stages import make_feed
from tests.support.tiny import make_schedule


def make_net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


class Taught(Stage):
    """Learns from its own average."""

    def __init__(self) -> None:
        super().__init__(make_net())
        self.teacher = WeightAverage(self.net)

    def epoch(self, feed: Feed) -> Steps:
        for x, _ in feed():
            yield {"follow": (self.net(x) - self.teacher(x) - 1).square().mean()}
            self.teacher.follow(self.net, 0.5)


def list_weights(net: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in net.parameters()]


def test_weights_are_the_mean_of_what_they_were() -> None:
    net = make_net()
    average, before = WeightAverage(net), list_weights(net)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1)
    average.follow(net, 0.9)
    for own, old in zip(average.parameters(), before, strict=True):
        torch.testing.assert_close(own, 0.9 * old + 0.1 * (old + 1))
    average.follow(net, 0.0)
    for own, new in zip(average.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(own, new)


def test_the_optimiser_moves_the_network_alone() -> None:
    stage = Taught()
    optimizer = make_schedule(1, (1, 0.1)).make_optimizer(stage.parameters())
    teacher, net = list_weights(stage.teacher), list_weights(stage.net)
    x = torch.randn(8, 4)
    answer = stage.teacher(x)
    assert not answer.requires_grad
    step(stage, {"apart": (stage.net(x) - answer - 1).square().mean()}, optimizer)
    for old, new in zip(teacher, stage.teacher.parameters(), strict=True):
        assert torch.equal(old, new)
        assert new.grad is None
    assert not all(torch.equal(a, b) for a, b in zip(net, stage.net.parameters(), strict=True))


def test_its_statistics_are_its_own_or_the_networks() -> None:
    net = make_net()
    average = WeightAverage(net)
    net(torch.randn(16, 4) + 3)
    average.follow(net, 0.5)
    norms = [module[1] for module in (net, average.net)]  # type: ignore[index]
    assert not torch.equal(norms[0].running_mean, norms[1].running_mean)
    average.follow(net, 0.5, statistics=True)
    assert torch.equal(norms[0].running_mean, norms[1].running_mean)
    assert int(norms[1].num_batches_tracked) == 1


def test_a_stage_goes_on_from_its_state_to_the_last_bit() -> None:
    schedule, whole, resumed = make_schedule(2, (1, 0.1)), Taught(), Taught()
    optimizer, other = (schedule.make_optimizer(one.parameters()) for one in (whole, resumed))
    train_epoch(whole, make_feed(1, 8), optimizer, lambda _: None)
    resumed.load_state_dict(whole.state_dict())
    other.load_state_dict(deepcopy(optimizer.state_dict()))
    for stage, sgd in ((whole, optimizer), (resumed, other)):
        train_epoch(stage, make_feed(2, 8), sgd, lambda _: None)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    assert not torch.equal(whole.teacher.net[0].weight, whole.net[0].weight)  # type: ignore[index]
