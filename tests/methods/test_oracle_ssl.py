"""Semi-supervised learning from the true split."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import drpl
from drpl.data.dataset import DatasetSplits, Truth
from drpl.noise.inject import inject
from tests.support.tiny import tiny_config


def test_the_split_is_the_true_one(tiny: DatasetSplits, tmp_path: Path) -> None:
    noisy, _ = inject(tiny, "uniform:0.3", 1)
    assert noisy.truth is not None
    result = drpl.train(
        replace(tiny, train=noisy),
        method="oracle_ssl",
        config=tiny_config("oracle_ssl", 1),
        out=tmp_path,
        quiet=True,
    )
    wrong = (noisy.labels != noisy.truth.labels).numpy()
    assert 0 < wrong.sum() < len(wrong)
    with np.load(tmp_path / "splits" / "final.npz") as split:
        assert np.array_equal(split["clean"], ~wrong)
    assert result.samples["flagged"].tolist() == wrong.tolist()
    assert result.detection is not None
    assert result.detection["auroc"] == 1


def test_too_few_right_labels_are_said(tiny: DatasetSplits, tmp_path: Path) -> None:
    labels = tiny.train.labels
    lies = Truth((labels + (torch.arange(72) > 0)) % 3, torch.ones(72, dtype=torch.bool))
    data = replace(tiny, train=replace(tiny.train, truth=lies))
    with pytest.raises(drpl.DrplError, match="only 1 labels are right, too few to learn from"):
        drpl.train(
            data, method="oracle_ssl", config=tiny_config("oracle_ssl", 1), out=tmp_path, quiet=True
        )
