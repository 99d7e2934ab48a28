"""The embedded data set."""

import torch

from drpl.data.sources import load


def test_digits_are_embedded_and_split_once_and_for_all() -> None:
    data = load("digits")
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.train.images.shape == (1, 8, 8)
    assert torch.bincount(data.train.labels).min() > 120
    assert torch.equal(load("digits").train.labels, data.train.labels)
    assert data.train.labels[:8].tolist() == load("digits").train.labels[:8].tolist()
    assert int(data.train.images.load(torch.arange(100)).max()) == 255
