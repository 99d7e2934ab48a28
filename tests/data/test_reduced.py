"""Data sets made smaller."""

from pathlib import Path

import numpy as np
import torch

import drpl
from drpl.data.reduced import evenly, reduced
from drpl.data.sources import ReadOptions, load


def test_limit_takes_the_first_of_each_class_evenly() -> None:
    labels = torch.tensor([0, 0, 0, 0, 1, 2, 1, 2, 0, 1])
    assert evenly(labels, 3, 6).tolist() == [0, 1, 4, 5, 6, 7]
    assert evenly(labels, 3, 9).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert evenly(labels, 3, 50).tolist() == list(range(10))


def test_size_and_limit_of_a_named_set() -> None:
    whole, small = load("digits"), load("digits", ReadOptions(size=4, limit=100, outside=("9",)))
    assert small.train.images.shape == (1, 4, 4)
    assert torch.bincount(small.train.labels).min() == 11
    assert len(small.train) == 100
    assert small.test is not None
    assert small.outside is not None
    assert len(small.outside) == 100
    first = whole.train.images.load(torch.tensor([0])).float()
    mean = first.view(1, 1, 4, 2, 4, 2).mean((3, 5))
    found = small.train.images.load(torch.tensor([0])).float()
    both = torch.stack([found.flatten(), mean.flatten()])
    assert float(torch.corrcoef(both)[0, 1]) > 0.95  # much like the mean of four pixels
    assert len(whole.train) > 1000


def test_truth_and_vectors_are_carried_along(tmp_path: Path) -> None:
    x, y = np.random.default_rng(1).normal(size=(40, 5)), np.arange(40) % 2
    np.savez(tmp_path / "v.npz", x=x, y=y[::-1], y_true=y)
    data = load(str(tmp_path / "v.npz"), ReadOptions(size=8, limit=10))
    assert data.train.images.shape == (5,)
    assert data.train.truth is not None
    assert data.train.truth.labels.tolist() == [k % 2 for k in range(10)]
    assert len(reduced(drpl.load("digits"), None, None).train) == len(drpl.load("digits").train)
