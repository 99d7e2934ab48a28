"""Whether probabilities mean what they say."""

import numpy as np
import pytest

from drpl.detection.calibration import calibration_error, measure_reliability


def test_reliability_by_hand() -> None:
    p_noisy = np.array([0.0, 0.04, 0.52, 0.58, 1.0])
    found = measure_reliability(p_noisy, np.array([False, False, True, False, True]))
    assert found.shape == (10, 3)
    assert found[0] == pytest.approx([0.02, 0, 2])
    assert found[5] == pytest.approx([0.55, 0.5, 2])
    assert found[9] == pytest.approx([1, 1, 1])
    assert np.isnan(found[3, :2]).all()
    assert calibration_error(p_noisy, np.array([0, 0, 1, 0, 1])) == pytest.approx(
        (2 * 0.02 + 2 * 0.05) / 5
    )


def test_what_means_what_it_says_has_no_error() -> None:
    draws = np.random.default_rng(1)
    p_noisy = draws.uniform(size=50_000)
    wrong = draws.uniform(size=50_000) < p_noisy
    assert calibration_error(p_noisy, wrong) < 0.02
    assert calibration_error(p_noisy**3, wrong) > 0.1
