"""Transition matrices count samples."""

from pathlib import Path

import numpy as np
import pytest

from drpl.report import matrices
from drpl.report.load import load_runs, read_samples
from tests.support.run_folders import CLASSES


def test_transitions_count_samples(run: Path) -> None:
    (result,) = load_runs([run])
    table = read_samples(result)
    assert table
    matrix = matrices.compute_transitions(table["true"], table["given"], len(CLASSES))
    assert np.allclose(matrix.sum(1), 1)
    a, b = 2, 5
    chosen = table["true"] == a
    assert matrix[a, b] == pytest.approx((table["given"][chosen] == b).mean())
    empty = matrices.compute_transitions(np.array([0, 0]), np.array([0, 1]), 3)
    assert np.isnan(empty[1]).all()
