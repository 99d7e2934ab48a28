from collections.abc import Iterator

import pytest
import torch
from torch import nn

from drpl.data.images import TensorImages
from drpl.data.transforms import Normalise
from drpl.errors import TrainingError
from drpl.training.feed import Feed
from drpl.training.loop import Epoch, fit
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Terms

CPU = torch.device("cpu")


class Toy(Stage):
    """One weight that moves by the learning rate in each step."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.scale = scale
        self.seen: list[float] = []

    def epoch(self, feed: Feed) -> Iterator[Terms]:
        for _ in feed():
            yield {"a": self.scale * self.weight.sum(), "b": 0 * self.weight.sum()}
            self.seen.append(float(self.weight.detach()[0]))


class Careless(Toy):
    def epoch(self, feed: Feed) -> Iterator[Terms]:
        with torch.no_grad():
            for _ in feed():
                yield {"a": self.weight.sum()}


def run(stage: Stage, schedule: Schedule, done: int = 0) -> list[Epoch]:
    images = TensorImages(torch.zeros(20, 2))
    sgd = schedule.make_optimizer(stage.parameters())
    view = Normalise((0.0, 0.0), (1.0, 1.0))

    def open_feed(epoch: int) -> Feed:
        return Feed(images, view, view, schedule.batch_size, epoch, (1,), CPU)

    return list(fit(stage, open_feed, schedule, sgd, done))


def plain(epochs: int, *lr: tuple[int, float]) -> Schedule:
    return Schedule(epochs=epochs, lr=lr, batch_size=10, momentum=0, weight_decay=0)


def test_a_milestone_counts_from_its_own_epoch() -> None:
    """Milestones 3 and 5: epochs 1-2 at the full rate, epoch 3 already at a tenth."""
    epochs = run(Toy(), plain(5, (1, 0.1), (3, 0.01), (5, 0.001)))
    assert [epoch.lr for epoch in epochs] == [0.1, 0.1, 0.01, 0.01, 0.001]


def test_yield_takes_a_step_and_terms_are_averaged() -> None:
    stage = Toy()
    epochs = run(stage, plain(1, (1, 0.1)))
    assert stage.seen == pytest.approx([-0.1, -0.2])  # each step was taken when yield came back
    assert epochs[0].terms["a"] == pytest.approx((0 - 0.2) / 2)
    assert epochs[0].terms["b"] == 0


def test_done_epochs_are_not_repeated() -> None:
    assert [epoch.number for epoch in run(Toy(), plain(4, (1, 0.1)), done=2)] == [3, 4]


def test_no_grad_over_a_yield_is_said() -> None:
    with pytest.raises(TrainingError, match=r"Careless\.epoch yielded inside torch\.no_grad"):
        run(Careless(), plain(1, (1, 0.1)))


def test_divergence_is_said() -> None:
    with pytest.raises(TrainingError, match="Toy diverged: 'a' is"):
        run(Toy(float("inf")), plain(2, (1, 0.1)))


@pytest.mark.parametrize("lr", [((2, 0.1),), ((1, 0.1), (1, 0.2)), ((1, 0.0),)])
def test_schedules_that_make_no_sense(lr: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="must"):
        Schedule(epochs=3, lr=lr)


def test_a_stage_must_say_what_an_epoch_is() -> None:
    with pytest.raises(NotImplementedError):
        next(Stage().epoch(None))  # type: ignore[arg-type]
