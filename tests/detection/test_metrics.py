import numpy as np
import pytest

from drpl.detection.metrics import score


def test_paper_polarity_and_reviewer_figures() -> None:
    wrong = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1], dtype=bool)
    kept = np.array([1, 1, 1, 0, 1, 0, 0, 0, 0, 0], dtype=bool)
    found = score(np.arange(10.0), kept, wrong)
    assert found["auroc"] == 1.0
    assert found["tpr"] == pytest.approx(3 / 4)  # clean samples that are kept
    assert found["fpr"] == pytest.approx(1 / 6)  # noisy samples that are kept
    assert found["precision"] == pytest.approx(5 / 6)
    assert found["recall"] == pytest.approx(5 / 6)


def test_unknown_is_none_not_zero() -> None:
    nothing = score(np.arange(4.0), np.ones(4, dtype=bool), np.zeros(4, dtype=bool))
    assert nothing == {"auroc": None, "tpr": 1.0, "fpr": None, "precision": None, "recall": None}
