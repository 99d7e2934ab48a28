"""What the labels of its neighbours say of a sample's label; no training is needed.

SimiFeat (Zhu, Dong, Liu, ICML 2022) lets the nearest samples, and the sample itself, vote by their
cosines. Its second detector asks how large a part of each given class is wrong (HOC, Zhu et al.,
ICML 2021): a sample and its two nearest are taken to share a true class, so that frequencies of
single labels, of pairs and of triples tell T = P(given | true) and p = P(true).

    s_i = sum_c p_c T_ci     s_ij = sum_c p_c T_ci T_cj     s_ijk = sum_c p_c T_ci T_cj T_ck

MOIT (Ortego et al., CVPR 2021) asks twice: each sample takes the majority label of its
neighbours, then the shares of these labels among its neighbours are its soft label.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from drpl.detection.neighbours import find_nearest, share_labels
from drpl.errors import RunError
from drpl.randomness import rng

VOTERS = 10  # SimiFeat's neighbours, the sample itself among them
AROUND = 250  # MOIT's neighbours
CLOSEST, FARTHEST = 0.99, 0.01  # between which MOIT's agreement is held
MOST_CLASSES = 200  # whose triples are still counted: there are as many as the cube of the classes
STEPS, RATE, SETTLED = 400, 0.1, 5  # of the fit, and steps before the best one is looked for
SCARCE, ALL = 0.05, 0.95  # the rate of a class that seems to be all right, or all wrong
TINY = 1e-8


def choose_count(most: int, samples: int, classes: int) -> int:
    """How many neighbours to ask: fewer than half a class of the mean size."""
    return max(2, min(most, samples // (2 * classes)))


def find_voters(vectors: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Cosine distances of SimiFeat's voters other than the sample, and who they are. [N, k] each"""
    if len(vectors) < 3:
        raise RunError(f"SimiFeat asks two neighbours of each sample, and there are {len(vectors)}")
    count = choose_count(VOTERS - 1, len(vectors), classes)
    products, near = find_nearest(normalize(vectors.float()), count)
    return 1 - products, near


def weigh_votes(distances: Tensor, near: Tensor, labels: Tensor, classes: int) -> Tensor:
    """SimiFeat's votes for each class, of unit length: neighbours' nearness by their labels. [N, C]

    The sample votes too, from as far before the nearest as that one is before the next.
    """
    own = 2 * distances[:, :1] - distances[:, 1:2]
    weights = 1 - torch.cat([own, distances], 1)
    voters = torch.cat([torch.arange(len(near), device=near.device)[:, None], near], 1)
    votes = weights.new_zeros(len(near), classes).scatter_add_(1, labels[voters], weights)
    return normalize(votes)


def share_soft_labels(vectors: Tensor, labels: Tensor, classes: int) -> Tensor:
    """MOIT's soft labels: shares of what the neighbours' own neighbours say. [N, C]"""
    return share_twice(labels, find_around(vectors, classes), classes)


def find_around(vectors: Tensor, classes: int) -> Tensor:
    """MOIT's neighbours of each sample. [N, k]"""
    count = choose_count(AROUND, len(vectors), classes)
    return find_nearest(normalize(vectors.float()), count)[1]


def share_twice(labels: Tensor, near: Tensor, classes: int) -> Tensor:
    """The shares, among the neighbours, of the label that most of their neighbours have. [N, C]"""
    return share_labels(share_labels(labels, near, classes).argmax(1), near, classes)


def measure_disagreement(soft: Tensor, labels: Tensor) -> Tensor:
    """-log of the share of the given label, held within bounds. [N]"""
    own = soft.gather(1, labels[:, None]).squeeze(1)
    return -own.clamp(FARTHEST, CLOSEST).log()


def estimate_wrong_shares(labels: Tensor, near: Tensor, classes: int) -> Tensor:
    """How large a part of the labels of each given class is wrong, by HOC. [C]"""
    transition, prior = fit_transition(*count_consensus(labels, near, classes))
    given = one_hot(labels, classes).double().mean(0)
    right = transition.diagonal().double() * prior.double() / given.clamp(min=TINY)
    wrong = 1 - right.clamp(max=1)
    return wrong.masked_fill(wrong <= 0, SCARCE).masked_fill(wrong >= 1, ALL)


def count_consensus(labels: Tensor, near: Tensor, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Frequencies of labels [C], of pairs [C, C] and of triples [C, C, C] with the two nearest."""
    if classes > MOST_CLASSES:
        raise RunError(
            f"the noise of {classes} classes is not estimated from triples of labels; "
            f"{MOST_CLASSES} are the most"
        )
    cells = labels
    tables = [torch.bincount(cells, minlength=classes)]
    for k in range(2):
        cells = cells * classes + labels[near[:, k]]
        tables.append(torch.bincount(cells, minlength=classes ** (k + 2)))
    first, second, third = (table.float() / len(labels) for table in tables)
    return first, second.view(classes, classes), third.view(classes, classes, classes)


def fit_transition(first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
    """T [C, C] and p [C] whose frequencies are nearest to those that were counted."""
    classes = len(first)
    weights = (5 * torch.eye(classes) - 1).requires_grad_()
    shares = (1 / classes + 0.1 * torch.rand(classes, generator=rng("hoc"))).requires_grad_()
    adam = torch.optim.Adam([weights, shares], lr=RATE)
    lowest, best = torch.inf, (weights, shares)
    with torch.enable_grad():
        for step in range(STEPS):
            transition, prior = weights.softmax(1), shares.softmax(0)
            singles, pairs, triples = expect_consensus(transition, prior)
            misses = ((first - singles), (second - pairs), (third - triples))
            loss = torch.stack([miss.norm() for miss in misses]).sum()
            if step >= SETTLED and loss.item() < lowest:
                lowest, best = loss.item(), (transition.detach().clone(), prior.detach().clone())
            adam.zero_grad()
            loss.backward()
            adam.step()
    return best


def expect_consensus(transition: Tensor, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The frequencies of labels, pairs and triples that T and p would give."""
    weighted = prior[:, None] * transition
    pairs = transition[:, :, None] * transition[:, None]  # [true, given, given]
    return (
        weighted.sum(0),
        weighted.T @ transition,
        torch.einsum("ci,cjk->ijk", weighted, pairs),
    )
