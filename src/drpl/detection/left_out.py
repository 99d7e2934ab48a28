"""What a linear classifier says of a sample that it was not shown: evidence without any training.

Ridge regression of the one-hot labels on vectors has its leave-one-out predictions in closed form.
With the fit f_i of sample i and its leverage h_i = x_i' (X'X + penalty)^-1 x_i + 1/N they are

    (f_i - h_i y_i) / (1 - h_i)

so that N classifiers cost no more than one. No sample's own label is in what is said of it, and
squares of errors forgive a wrong label more than logarithms do. The penalty is the one whose
predictions agree with most of the given labels: noise lowers all agreements alike. Where an image
may have several labels, each label has a regression, and the penalty with the least squared error.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.linalg import eigh
from torch import Tensor
from torch.nn.functional import one_hot

PENALTIES = (30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)  # where numbers have unit variance
PART = 4096  # samples that are read together
ENOUGH = 20_000  # samples that penalties are compared by

Load = Callable[[Tensor], Tensor]  # row numbers -> centred vectors [B, D]


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out predictions of the given labels."""

    scores: Tensor  # [N, C] about 1 for the predicted class, 0 for others
    penalty: float
    agreement: float  # share of the given labels that are predicted

    def margins(self, labels: Tensor) -> Tensor:
        """How far the best other class is ahead of the given label. [N]"""
        own = self.scores.gather(1, labels[:, None]).squeeze(1)
        return self.scores.scatter(1, labels[:, None], -torch.inf).amax(1) - own


def predict_left_out(load: Load, labels: Tensor, classes: int) -> LeftOut:
    """Predict each label from all other samples; vectors are read part by part."""
    ridge = _Ridge.fit(load, one_hot(labels, classes).float())
    some = torch.linspace(0, len(labels) - 1, min(len(labels), ENOUGH)).long()
    x = torch.cat([ridge.turn(load(index)) for index in some.split(PART)])
    agreements = [
        float((ridge.predict(x, some, penalty).argmax(1) == labels[some]).double().mean())
        for penalty in PENALTIES
    ]
    penalty = PENALTIES[max(range(len(PENALTIES)), key=agreements.__getitem__)]
    every = torch.arange(len(labels)).split(PART)
    scores = torch.cat([ridge.predict(ridge.turn(load(i)), i, penalty) for i in every])
    return LeftOut(scores, penalty, float((scores.argmax(1) == labels).double().mean()))


def predict_tags_left_out(load: Load, tags: Tensor) -> Tensor:
    """How much each image looks as if it had each label, by all other images. [N, C] about 0 to 1

    `tags` [N, C] says which labels each image has.
    """
    ridge, targets = _Ridge.fit(load, tags.float()), tags.double()
    some = torch.linspace(0, len(tags) - 1, min(len(tags), ENOUGH)).long()
    x = torch.cat([ridge.turn(load(index)) for index in some.split(PART)])
    errors = [((ridge.predict(x, some, p) - targets[some]) ** 2).mean(0) for p in PENALTIES]
    best = torch.stack(errors).argmin(0)  # [C]
    scores = torch.empty(tags.shape)
    for index in torch.arange(len(tags)).split(PART):
        turned = ridge.turn(load(index))
        for k in best.unique().tolist():
            mine = (best == k).nonzero().flatten()
            scores[index[:, None], mine] = ridge.predict(turned, index, PENALTIES[k])[:, mine]
    return scores


@dataclass(frozen=True)
class _Ridge:
    """Ridge regressions of all penalties, along the axes in which X'X is diagonal."""

    axes: Tensor  # [D, D]
    variances: Tensor  # [D] the diagonal
    answers: Tensor  # [D, C] X'Y
    centred: Tensor  # [N, C] one-hot labels less the classes' shares
    shares: Tensor  # [C]

    @classmethod
    def fit(cls, load: Load, targets: Tensor) -> "_Ridge":
        """To 0 or 1 for each sample and class. [N, C]"""
        shares = targets.mean(0)
        centred = targets - shares
        products, answers = (torch.zeros((), dtype=torch.float64) for _ in range(2))
        for index in torch.arange(len(targets)).split(PART):
            x = load(index).float()
            products = products + (x.T @ x).double()
            answers = answers + (x.T @ centred[index]).double()
        # SciPy's driver copes with the many equal variances of few samples, torch's may not.
        variances, axes = (torch.from_numpy(part) for part in eigh(products.numpy()))
        return cls(axes, variances.clamp(min=0), axes.T @ answers, centred, shares)

    def turn(self, x: Tensor) -> Tensor:
        """Vectors [B, D] along the axes."""
        return (x.float() @ self.axes.float()).double()

    def predict(self, x: Tensor, index: Tensor, penalty: float) -> Tensor:
        """The leave-one-out predictions of turned samples. [B, C]"""
        inverse = 1 / (self.variances + penalty)
        fit = x @ (inverse[:, None] * self.answers)
        leverage = ((x * x) @ inverse + 1 / len(self.centred))[:, None]
        return ((fit - leverage * self.centred[index]) / (1 - leverage)).float() + self.shares
