import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from drpl.detection import left_out
from drpl.detection.left_out import predict_left_out


def make_vectors(samples: int = 60, size: int = 8) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    x = torch.randn(samples, size, generator=draws)
    y = (x[:, :3] + 0.5 * torch.randn(samples, 3, generator=draws)).argmax(1)
    return x - x.mean(0), y


def solve_without(x: Tensor, y: Tensor, i: int, penalty: float) -> Tensor:
    """Ridge regression with an intercept on all samples but one, and what it says of that one."""
    others = torch.arange(len(x)) != i
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    inputs = torch.cat([x.double(), ones], 1)
    weights = torch.full((inputs.shape[1],), penalty, dtype=torch.float64)
    weights[-1] = 0
    inner = inputs[others].T @ inputs[others] + weights.diag()
    targets = one_hot(y, 3).double()[others]
    answer: Tensor = inputs[i] @ torch.linalg.solve(inner, inputs[others].T @ targets)
    return answer


@pytest.mark.parametrize("samples", [60, 6])  # also fewer than dimensions
def test_predictions_are_those_of_classifiers_trained_without_the_sample(samples: int) -> None:
    x, y = make_vectors(samples)
    found = predict_left_out(lambda index: x[index], y, 3)
    for i in range(samples):
        expected = solve_without(x, y, i, found.penalty).float()
        torch.testing.assert_close(found.scores[i], expected, atol=1e-5, rtol=0)


def test_the_penalty_agrees_best_and_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = make_vectors(300)
    whole = predict_left_out(lambda index: x[index], y, 3)
    for penalty in left_out.PENALTIES:
        monkeypatch.setattr(left_out, "PENALTIES", (penalty,))
        assert predict_left_out(lambda index: x[index], y, 3).agreement <= whole.agreement
    monkeypatch.setattr(left_out, "PENALTIES", (whole.penalty,))
    monkeypatch.setattr(left_out, "PART", 7)
    parts = predict_left_out(lambda index: x[index], y, 3)
    torch.testing.assert_close(parts.scores, whole.scores, atol=1e-5, rtol=0)


def test_wrong_labels_have_the_largest_margins() -> None:
    x, y = make_vectors(600)
    wrong = torch.arange(600) % 10 == 0
    given = torch.where(wrong, (y + 1) % 3, y)
    margins = predict_left_out(lambda index: x[index], given, 3).margins(given)
    assert float(margins[wrong].median()) > float(margins[~wrong].quantile(0.9))
