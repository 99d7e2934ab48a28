import pytest
import torch

from drpl.detection.evidence import Evidence
from drpl.detection.split import detect, divide, require_labelled
from drpl.errors import TrainingError


def evidence(losses: torch.Tensor, classes: int = 4) -> Evidence:
    return Evidence("relabel", losses[None], -losses[None], torch.zeros(len(losses), classes))


def separated(count: int = 400) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(3)
    noisy = torch.rand(count, generator=draws) < 0.4
    losses = torch.where(noisy, 3 + torch.rand(count, generator=draws), torch.rand(count) ** 2)
    return losses, torch.arange(count) % 4, noisy


def test_split_follows_the_losses() -> None:
    losses, labels, noisy = separated()
    split = detect(evidence(losses), labels, 0.5)
    assert torch.equal(split.clean, ~noisy)
    assert not split.notes
    record = split.to_record()
    assert record["labelled"] + record["unlabelled"] == 400
    assert record["mixture"]["scale"][0] < record["mixture"]["scale"][1]


def test_threshold_is_inclusive() -> None:
    losses, labels, _ = separated()
    p = detect(evidence(losses), labels, 0.5).noisy
    border = float(p.sort().values[100])
    assert int(detect(evidence(losses), labels, border).clean.sum()) == int((p <= border).sum())


def test_min_labelled_fills_up_from_the_lowest_losses_and_says_so() -> None:
    losses, labels, _ = separated()
    strict = detect(evidence(losses), labels, 0.0)
    guarded = detect(evidence(losses), labels, 0.0, min_labelled=0.5)
    assert int(guarded.clean.sum()) > int(strict.clean.sum())
    assert any("min_labelled added" in note for note in guarded.notes)
    for c in range(4):
        mine = labels == c
        expected = float((1 - guarded.noisy[mine]).sum())
        assert int(guarded.clean[mine].sum()) >= round(0.5 * expected)
        kept, dropped = losses[mine & guarded.clean], losses[mine & ~guarded.clean]
        assert float(kept.max()) <= float(dropped.min())


def test_min_labelled_is_silent_where_it_is_not_needed() -> None:
    losses, labels, _ = separated()
    assert not detect(evidence(losses), labels, 0.5, min_labelled=0.5).notes


def test_a_class_without_labels_is_said() -> None:
    losses, labels, _ = separated()
    losses[labels == 2] = 3.5
    notes = detect(evidence(losses), labels, 0.5).notes
    assert any("1 of 4 classes keep fewer than 6 labels (numbers 2)" in note for note in notes)


def test_a_rare_class_keeps_a_few_labels() -> None:
    losses = torch.cat([torch.linspace(0, 0.2, 200), torch.linspace(5, 6, 40)])
    labels = torch.tensor([0] * 200 + [1] * 40)
    assert not detect(evidence(losses), labels, 0.5).clean[200:].any()
    kept = detect(evidence(losses), labels, 0.5, min_labelled=0.3).clean[200:]
    assert kept[:6].all()
    assert not kept[6:].any()


def test_a_handful_of_labels_is_refused() -> None:
    clean = torch.arange(24) < 6
    require_labelled(clean, "train longer", stage="relabel")
    clean[5] = False
    with pytest.raises(TrainingError) as caught:
        require_labelled(clean, "train longer", stage="relabel")
    wanted = "after 'relabel' only 5 of 24 samples keep their label, too few to learn from"
    assert str(caught.value) == f"{wanted}; train longer"


def test_nobody_left_without_a_label_or_nobody_with_one() -> None:
    labelled, guessed = divide(torch.ones(24), 0.5)
    assert labelled.tolist() == guessed.tolist() == list(range(24))
    first = torch.arange(24) < 8
    with pytest.raises(TrainingError, match="only 3 of 24 samples keep"):
        divide((torch.arange(24) < 3).float(), 0.5)
    labelled, guessed = divide(torch.where(first, 0.5, 0.6), 0.5)
    assert guessed.tolist() == first.nonzero().flatten().tolist()  # 0.5 itself is not enough
