"""How much of the data is wrong, from below, from above, and in between.

Predictions that have not seen a label contradict it for two reasons: the label is wrong, or the
prediction is. No data set tells the two apart by itself; this is what can be known.

**At least.** Among the SURE share of the samples on which the classifier is surest it hardly errs.
Of k contradictions among these n, the lower end of Jeffreys' interval for k / n is taken, less the
classifier's own error there by its calibrated probabilities, and less SLIPS, for no calibration
vouches for fewer errors than that. If noise does not depend on the image,
that share is the noise rate itself; if people err where images are hard, it is less.

**At most.** If the classifier never erred, every contradiction would be a wrong label: the upper
end of Jeffreys' interval for the share of all samples that are contradicted.

**Most likely.** Let u be a sample's rank by doubt, 0 the surest and 1 the least sure. Where the
classifier errs little (u < SEEN) one sees how contradictions beyond its own error grow with u. A
straight line through them, by least squares, is continued to u = 1, and its mean over all samples
is taken. Noise that is the same everywhere has no slope: the slope b is multiplied by
1 - (s / b)^2, s being its standard error, or by 0 if that is less, so that chance claims none. The
estimate is the mean of a normal distribution with that mean and its standard error, cut off at the
two ends: a few hundred samples that show no noise do not prove that there is none.

**Of one class.** The samples that are given a label are chosen by it, and where the class is hard
to tell, the surest of them are those that belong elsewhere: their share says nothing of the others.
So *at least* counts, among all samples of the class, those that are contradicted and among the SURE
share of the whole set. Less the classifier's own errors: samples of that class, whatever their
label, that are surely named otherwise, by the calibrated probabilities; the error of single
predictions would not do, for the label has chosen whom it contradicts. *At most* is as above; the
likely value is the mean of what is known of each label. Predictions must name the class more often
where it is given than where it is not, by CERTAIN standard errors, or nothing is known.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import beta, truncnorm
from torch import Tensor

from drpl.detection.noise_model import NoiseModel, rank_doubt

SURE = 0.2  # share of the samples whose predictions are trusted
SLIPS = 0.005  # of these may be the classifier's own errors, however sure it is
SEEN = 0.4  # share of the samples that show how noise grows with doubt
CHANCE = 1.0  # standard errors that a slope is wide of 0 by chance
CERTAIN = 3.0  # standard errors by which predictions must be better than chance
FEWEST = 10  # samples that a line can be drawn through
LEAST = 1e-4  # standard error that every estimate has
TAIL = 0.005  # of either bound: together with what the classifier gets wrong, 19 of 20 hold


@dataclass(frozen=True)
class Rate:
    """A share and the interval that it lies in 19 times out of 20."""

    value: float
    low: float
    high: float


UNKNOWN = Rate(0.0, 0.0, 1.0)  # where predictions say nothing of the labels


def estimate_rate(model: NoiseModel) -> Rate:
    """The share of wrong labels."""
    contradicted, error = _contradict(model)
    if not _tells_more_than_chance(contradicted, model.labels):
        return UNKNOWN
    doubt = rank_doubt(model.scores)
    sure = doubt <= SURE
    low = _bound(float(contradicted[sure].sum()), int(sure.sum()), TAIL)
    low -= float(error[sure].mean()) + SLIPS
    high = _bound(float(contradicted.sum()), len(contradicted), 1 - TAIL)
    mean, spread = _continue_line(doubt, (contradicted - error) / (1 - error).clamp(min=0.5))
    low = max(0.0, min(low, high))
    if low == high:  # more of the surest labels are contradicted than of all
        return Rate(high, low, high)
    ends = ((end - mean) / spread for end in (low, high))
    value = float(truncnorm.mean(*ends, mean, spread))
    return Rate(min(max(value, low), high), low, high)


def estimate_by_class(model: NoiseModel, p_noisy: Tensor, fewest: int) -> dict[int, Rate]:
    """The share of wrong labels in each class that has as many samples, by its number.

    `p_noisy` is how probably each label is wrong. [N]
    """
    labels, named, probs = model.labels, model.scores.argmax(1), model.probs
    sure = (rank_doubt(model.scores) <= SURE).double()

    def add_up(values: Tensor) -> Tensor:
        return labels.bincount(values.double(), len(probs.T))

    contradicted = (named != labels).double()
    sizes, agreed = add_up(torch.ones_like(sure)), add_up(1 - contradicted)
    reasons = _are_named_for_a_reason(agreed, sizes, named.bincount(minlength=len(probs.T)))
    # Where predictions are wrong, in samples that are of the class and named otherwise.
    slips = (sure[:, None] * probs).scatter(1, named[:, None], 0).sum(0) + SLIPS * add_up(sure)
    hits, likely = add_up(sure * contradicted), add_up(p_noisy)
    rates = {}
    for label in (sizes >= max(1, fewest)).nonzero().flatten().tolist():
        size = int(sizes[label])
        if not reasons[label]:
            rates[label] = UNKNOWN
            continue
        high = _bound(size - float(agreed[label]), size, 1 - TAIL)
        low = _bound(float(hits[label]), size, TAIL) - float(slips[label]) / size
        low = max(0.0, min(low, high))
        rates[label] = Rate(min(max(float(likely[label]) / size, low), high), low, high)
    return rates


def _contradict(model: NoiseModel) -> tuple[Tensor, Tensor]:
    """Which labels are contradicted, and how probably each prediction errs. Both [N]"""
    contradicted = (model.scores.argmax(1) != model.labels).double()
    return contradicted, 1 - model.probs.amax(1)


def _are_named_for_a_reason(agreed: Tensor, sizes: Tensor, named: Tensor) -> Tensor:
    """Whether predictions name each class more often where it is the given label. [C] bool

    `agreed` counts the samples of a class whose prediction is the label, `named` the predictions.
    """
    total = sizes.sum()
    here, there = agreed / sizes, (named - agreed) / (total - sizes)  # nothing else: not a number
    share = named / total
    error = (share * (1 - share) * (1 / sizes + 1 / (total - sizes))).sqrt()
    return here - there > CERTAIN * error


def _tells_more_than_chance(contradicted: Tensor, labels: Tensor) -> bool:
    """Whether predictions agree with more labels than the name of the largest class would."""
    largest = float(labels.bincount().max()) / len(labels)
    chance = largest + CERTAIN * math.sqrt(largest * (1 - largest) / len(labels))
    return 1 - float(contradicted.mean()) > min(chance, 1 - 1 / len(labels))


def _bound(hits: float, total: int, quantile: float) -> float:
    """An end of Jeffreys' interval for the probability of a hit."""
    if not hits and quantile < 0.5:
        return 0.0  # where nothing was hit, nothing may be
    return float(beta.ppf(quantile, hits + 0.5, total - hits + 0.5))


def _continue_line(doubt: Tensor, excess: Tensor) -> tuple[float, float]:
    """The mean over all doubts of a line that is fitted where doubt is small, and its error."""
    seen = doubt <= SEEN
    u, y = doubt[seen].numpy(), excess[seen].numpy()
    if len(u) < FEWEST:
        return float(excess.mean()), float(excess.std()) / math.sqrt(len(excess)) + LEAST
    (slope, _), errors = np.polyfit(u, y, 1, cov="unscaled")
    noise, beyond = float(np.var(y - slope * u)), 0.5 - u.mean()
    spread = noise * errors[0, 0]
    error = math.sqrt(noise / len(u) + beyond**2 * spread)
    slope *= max(0.0, 1 - CHANCE**2 * spread / max(slope**2, 1e-12))
    return float(y.mean() + slope * beyond), error + LEAST
