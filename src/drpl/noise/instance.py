"""Noise that depends on the image: what is on it decides which wrong label it gets.

Each sample has its own chance to flip, from a normal distribution around the rate cut to 0..1, and
each true class its own random projection of the pixels to the classes (Xia et al., "Part-dependent
label noise", 2020). The share of each class is exact here: the samples nearest to flipping do.
"""

from math import prod

import torch
from torch import Generator, Tensor

from drpl.data.dataset import Dataset
from drpl.noise.kind import Change, Noise, Part, Quota, even_rates

SPREAD = 0.1  # deviation of the samples' own rates


def instance(rate: float) -> Noise:
    """A share of each class gets labels that its images suggest to a random projection."""

    def draw(dataset: Dataset, quota: Quota, generator: Generator) -> Change:
        chance = torch.empty(len(dataset), dtype=torch.float64)
        torch.nn.init.trunc_normal_(chance, rate, SPREAD, 0, 1, generator=generator)
        fate = torch.rand(len(dataset), generator=generator, dtype=torch.float64)
        rows = quota.pick(dataset.labels, chance - fate)
        return Change(rows, _suggest_labels(dataset, rows, generator))

    return Noise((Part(draw, even_rates(rate)),))


def _suggest_labels(dataset: Dataset, rows: Tensor, generator: Generator) -> Tensor:
    """A wrong label for each sample, by its true class's projection of its pixels. [M]"""
    labels = dataset.labels[rows]
    given = labels.clone()
    features = prod(dataset.images.shape)
    for c in labels.unique().tolist():
        projection = torch.randn(features, len(dataset.classes), generator=generator)
        for mine in (labels == c).nonzero().flatten().split(1024):
            pixels = dataset.images.load(rows[mine]).float().flatten(1).cpu()
            pixels = pixels - pixels.mean(1, keepdim=True)
            pixels = pixels / pixels.std(1, keepdim=True, correction=0).clamp(min=1e-6)
            scores = pixels @ projection
            scores[:, c] = -torch.inf
            given[mine] = torch.multinomial(scores.softmax(1), 1, generator=generator).flatten()
    return given
