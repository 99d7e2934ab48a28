from collections.abc import Iterator

import pytest
import torch
from torch import nn

from drpl.data.images import TensorImages
from drpl.data.transforms import Normalise
from drpl.errors import TrainingError
from drpl.training.feed import EpochPredictions, Feed
from drpl.training.loop import Epoch, fit, measure_agreement, train_epoch
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


class Taught(Toy):
    """Sees every sample as class 1, and in the end is taught that all are of class 0."""

    targets: torch.Tensor  # [20, 3]

    def __init__(self, targets: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("targets", targets)

    def epoch(self, feed: Feed) -> Iterator[Terms]:
        for _, i in feed():
            feed.record(i, torch.tensor([0.1, 0.8, 0.1]).repeat(len(i), 1))
            yield {"a": self.weight.sum()}
        self.targets[:] = torch.tensor([1.0, 0.0, 0.0])


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


def test_training_accuracy_is_that_of_the_epochs_own_targets() -> None:
    targets = torch.eye(3)[[1] * 5 + [2] * 10 + [0] * 5]
    targets[15:] = 1 / 3  # taught nothing
    first, second = run(Taught(targets), plain(2, (1, 0.1)))
    assert first.target_accuracy == pytest.approx(100 * 5 / 15)
    assert second.target_accuracy == 0
    labels = torch.tensor([1] * 8 + [2] * 12)
    row = first.to_row("toy", labels, None, 1.0)
    assert row["train_accuracy"] == pytest.approx(40)
    assert row["target_accuracy"] == first.target_accuracy
    (untaught,) = run(Toy(), plain(1, (1, 0.1)))
    row = untaught.to_row("toy", labels, None, 1.0)
    assert (row["train_accuracy"], row["target_accuracy"]) == (None, None)


def test_only_samples_that_were_seen_count() -> None:
    probs, visited = torch.eye(3)[[0, 1, 2, 2]], torch.tensor([True, True, True, False])
    found = EpochPredictions(probs, visited)
    assert measure_agreement(found, torch.tensor([0, 0, 2, 2])) == pytest.approx(200 / 3)
    assert measure_agreement(found, torch.tensor([-1, 0, -1, 2])) == 0
    assert measure_agreement(found, torch.tensor([-1, -1, -1, 2])) is None


@pytest.mark.parametrize(("full", "hardware"), [(False, True), (True, True), (False, False)])
def test_bfloat16_is_for_gpus_that_have_it_unless_refused(
    full: bool, hardware: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the loop would ask on a GPU; here autocast is only asked whether it is on."""
    seen: list[bool] = []

    class Asking(Toy):
        def epoch(self, feed: Feed) -> Iterator[Terms]:
            seen.append(torch.is_autocast_enabled("cpu"))
            yield {"a": self.weight.sum()}

    stage, schedule = Asking(), plain(1, (1, 0.1))
    view = Normalise((0.0, 0.0), (1.0, 1.0))
    feed = Feed(TensorImages(torch.zeros(20, 2)), view, view, 10, 1, (1,), CPU)
    monkeypatch.setattr("drpl.training.loop.suits_bfloat16", lambda _: hardware)
    sgd = schedule.make_optimizer(stage.parameters())
    train_epoch(stage, feed, sgd, lambda _: None, full_precision=full)
    assert seen == [hardware and not full]


def test_in_bfloat16_a_step_uses_the_weights_that_the_last_one_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a GPU; autocast casts on CPUs, too."""
    seen: list[float] = []

    class Linear(Stage):
        def __init__(self) -> None:
            super().__init__(nn.Linear(2, 1, bias=False))
            nn.init.ones_(self.net.weight)  # type: ignore[arg-type]

        def epoch(self, feed: Feed) -> Iterator[Terms]:
            for x, _ in feed():
                out = self.net(x)
                assert out.dtype == torch.bfloat16
                seen.append(float(out[0].detach()))
                yield {"sum": out.float().mean()}

    stage, schedule = Linear(), plain(1, (1, 0.25))
    view = Normalise((0.0, 0.0), (1.0, 1.0))
    feed = Feed(TensorImages(torch.ones(20, 2)), view, view, 10, 1, (1,), CPU)
    monkeypatch.setattr("drpl.training.loop.suits_bfloat16", lambda _: True)
    train_epoch(stage, feed, schedule.make_optimizer(stage.parameters()), lambda _: None)
    assert seen == [2, 1.5]


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


def test_a_cosine_falls_to_its_rate_after_the_last_epoch() -> None:
    falling = Schedule(epochs=200, lr=((1, 0.1),), cosine=(30, 0.0))
    rates = [falling.lr_at(epoch) for epoch in (1, 30, 31, 116, 200)]
    assert rates == pytest.approx([0.1, 0.1, 0.0999916, 0.0495407, 8.43792e-6], rel=1e-5)
    floored = Schedule(epochs=600, lr=((1, 0.05),), cosine=(1, 5e-5))
    assert [floored.lr_at(epoch) for epoch in (1, 301)] == pytest.approx([0.05, 0.025025])
