"""L_DMI (Xu et al., NeurIPS 2019): maximise the information between prediction and given label.

    O = onehot(Y)^T P    [C, C], summed over the batch, not divided by its size
    L = -log(|det O| + 0.001)

Noise that depends on the class alone multiplies det O by a constant, so it shifts the loss and
changes no gradient. But any permutation of the classes does too: hence the start from a network
that already knows which is which.
"""

from dataclasses import replace

import torch
from torch import Tensor

from drpl.detection.split import detect
from drpl.methods.cross_entropy import Classify, Continued, pretrain
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import one_hot
from drpl.training.stage import Steps

ENOUGH = 10  # images a class in a batch: with fewer, some class is often missing


class Config(Continued):
    """Two schedules: cross-entropy first, then the determinant."""


class Informative(Classify):
    """Maximise the determinant of the joint distribution of predictions and labels."""

    def epoch(self, feed: Feed) -> Steps:
        """One pass over the whole batches."""
        whole = 0
        for x, i in feed():
            whole = max(whole, len(i))
            if len(i) == whole:  # an incomplete last batch has another scale
                yield {"dmi": dmi(self.classify(feed, x, i), self.targets[i])}


def dmi(logits: Tensor, targets: Tensor) -> Tensor:
    """-log(|det O| + 0.001).

    A product of C numbers wants float64, which autocast leaves alone. Where a class is missing
    from the batch the determinant and the gradient are 0.
    """
    joint = targets.double().T @ logits.double().softmax(1)
    size: Tensor = torch.linalg.det(joint).abs()
    return -(size + 0.001).log()


def train(run: Run, config: Config) -> Outcome:
    """Start with cross-entropy, go on with the determinant; judge labels by the final loss."""
    stage = Informative(pretrain(run, config), one_hot(run.labels, run.classes))
    net = run.fit("train", stage, config.schedule).net
    split = detect(run.observe("train", net), run.labels, config.threshold)
    size, least = config.schedule.batch_size, ENOUGH * run.classes
    if size < least:
        rare = (
            f"batches of {size} often miss one of {run.classes} classes and then teach nothing; "
            f"give schedule.batch_size at least {least}"
        )
        split = replace(split, notes=(*split.notes, rare))
    return Outcome(net, run.keep(split))
