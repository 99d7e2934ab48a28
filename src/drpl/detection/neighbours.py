"""What the neighbours of a sample are called: evidence that no training is needed for."""

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from drpl.randomness import rng

CHUNK = 1024  # samples compared with all others at once
MOST = 50_000  # samples that are compared with; of more, so many drawn at random


def vote_by_neighbours(vectors: Tensor, labels: Tensor, classes: int, count: int) -> Tensor:
    """The share of each label among the nearest others of every sample, by cosine. [N, C]"""
    unit, number = normalize(vectors.float()), torch.arange(len(vectors))
    pool = number
    if len(number) > MOST:
        pool = torch.randperm(len(number), generator=rng("neighbours"))[:MOST].sort().values
    others, given = unit[pool], one_hot(labels[pool], classes).float()
    count = max(1, min(count, len(pool) - 1))
    votes = []
    for index in number.split(CHUNK):
        near = unit[index] @ others.T
        near[index[:, None] == pool] = -torch.inf  # not itself
        votes.append(given[near.topk(count).indices].mean(1))
    return torch.cat(votes)
