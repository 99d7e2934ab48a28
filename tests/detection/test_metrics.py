import numpy as np
import pytest

from drpl.detection.metrics import average_precision, score, tell_outside


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


def test_images_of_no_class_among_wrong_labels() -> None:
    scores = np.array([9.0, 1.0, 2.0, 3.0, 4.0])
    wrong = np.array([0, 1, 1, 1, 1], dtype=bool)
    inside = np.array([1, 1, 0, 1, 0], dtype=bool)
    assert tell_outside(scores, wrong, inside) == pytest.approx(3 / 4)
    assert tell_outside(scores, wrong, np.ones(5, dtype=bool)) is None
    assert tell_outside(scores, wrong, ~wrong) is None


def test_average_precision_by_hand() -> None:
    wrong = np.array([True, False, True, False])
    # By falling score: wrong (1 of 1), right, wrong (2 of 3), right.
    assert average_precision(np.array([4.0, 3.0, 2.0, 1.0]), wrong) == pytest.approx(
        (1 + 2 / 3) / 2
    )
    assert average_precision(np.arange(4.0), np.zeros(4)) is None
