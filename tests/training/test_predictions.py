import torch
from torch import tensor

from drpl.training.feed import EpochPredictions
from drpl.training.predictions import PredictionMean

LABELS = tensor([0, 1, 0])


def epoch(*rows: list[float] | None) -> EpochPredictions:
    visited = tensor([row is not None for row in rows])
    return EpochPredictions(tensor([row or [0.0, 0.0] for row in rows]), visited)


def test_the_second_half_is_averaged() -> None:
    mean = PredictionMean(LABELS, epochs=4)
    mean.add(1, epoch([0.9, 0.1], [0.9, 0.1], [0.9, 0.1]))
    mean.add(2, epoch([0.8, 0.2], [0.8, 0.2], [0.8, 0.2]))
    mean.add(3, epoch([0.6, 0.4], [0.5, 0.5], None))
    mean.add(4, epoch([0.2, 0.8], None, None))
    found = mean.average(torch.full((3, 2), 0.5))
    assert found is not None
    # the third was not visited then: its latest prediction stands
    assert torch.allclose(found["mean_probs"], tensor([[0.4, 0.6], [0.5, 0.5], [0.8, 0.2]]))
    losses = [-(tensor(0.6).log() + tensor(0.2).log()) / 2, -tensor(0.5).log(), -tensor(0.8).log()]
    assert torch.allclose(found["mean_losses"], torch.stack(losses))
    margin = (tensor(0.6 / 0.4).log() + tensor(0.2 / 0.8).log()) / 2
    assert torch.allclose(
        found["mean_margins"], torch.stack([margin, tensor(0.0), tensor(4.0).log()])
    )


def test_who_was_never_visited_has_what_is_given() -> None:
    mean = PredictionMean(LABELS, epochs=2)
    assert mean.average(torch.full((3, 2), 0.5)) is None
    mean.add(2, epoch([0.9, 0.1], None, [0.0, 1.0]))
    found = mean.average(tensor([[0.5, 0.5], [0.3, 0.7], [0.5, 0.5]]))
    assert found is not None
    assert torch.allclose(found["mean_probs"], tensor([[0.9, 0.1], [0.3, 0.7], [0.0, 1.0]]))
    assert bool(torch.isfinite(found["mean_losses"]).all())  # also where a probability is 0


def test_it_goes_on_from_its_state() -> None:
    whole, first = PredictionMean(LABELS, 2), PredictionMean(LABELS, 2)
    one, two = epoch([0.9, 0.1], [0.5, 0.5], None), epoch([0.1, 0.9], None, [0.2, 0.8])
    whole.add(1, one)
    whole.add(2, two)
    first.add(1, one)
    second = PredictionMean(LABELS, 2, first.state)
    second.add(2, two)
    rest = torch.full((3, 2), 0.5)
    for name, table in (whole.average(rest) or {}).items():
        assert torch.equal(table, (second.average(rest) or {})[name])


def test_a_stage_that_records_nothing() -> None:
    mean = PredictionMean(LABELS, 1)
    mean.add(1, EpochPredictions(torch.zeros(3, 0), torch.zeros(3, dtype=torch.bool)))
    assert mean.average(torch.full((3, 2), 0.5)) is None
