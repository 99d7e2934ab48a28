"""Forward correction through the true matrix."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import drpl
from drpl.data.dataset import DatasetSplits, Truth
from drpl.methods import oracle_forward
from drpl.noise.inject import inject
from drpl.training import checkpoint
from tests.support.tiny import tiny_config, tiny_network


def test_the_true_matrix_is_counted_inside_the_classes_only() -> None:
    true = torch.tensor([0, 0, 0, 0, 1, 1, 99, 1])
    given = torch.tensor([0, 0, 1, 2, 1, 0, 0, 2])
    inside = torch.tensor([True] * 6 + [False] * 2)
    found = oracle_forward.count_transitions(Truth(true, inside), given, 3)
    assert found.tolist() == [[0.5, 0.25, 0.25], [0.5, 0.5, 0], [0, 0, 1]]  # nobody is of class 2


def test_the_oracle_trains_through_the_true_matrix(tiny: DatasetSplits, tmp_path: Path) -> None:
    noisy, manifest = inject(tiny, "uniform:0.3", 1)
    data = replace(tiny, train=noisy)
    config = tiny_config("oracle_forward", 3)
    drpl.train(
        data, method="oracle_forward", config=config, network=tiny_network, out=tmp_path, quiet=True
    )
    kept = checkpoint.read(tmp_path / "stages" / "train.pt")
    assert kept is not None
    assert np.allclose(kept.stage["transition"], manifest["matrix"], atol=1e-6)
