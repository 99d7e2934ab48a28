"""DRPL (Ortego et al., ICPR 2020): distribution robust pseudo-labelling.

Relabel all samples with the network's own predictions: the loss against the ORIGINAL labels then
separates clean from noisy, whatever the noise. A beta mixture on it splits the data;
semi-supervised learning on the split gives a better loss and a second split; a second
semi-supervised run gives the model.

    stage 1   joint.Relabel on all samples           -> loss -> split at first_threshold
    stage 2   pseudo-labels with mixup on the split  -> loss -> split at second_threshold
    final     pseudo-labels with mixup on that split -> the model
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.detection.evidence import Evidence
from drpl.detection.split import Split, detect
from drpl.methods.joint import Prior, Relabel, Relabelling
from drpl.methods.pseudo_label import FromSplit, train_semi_supervised
from drpl.runs.run import Outcome, Run
from drpl.training.losses import one_hot
from drpl.training.schedule import Schedule

EVIDENCE = ("relabel", "detect")  # the stages whose losses it judges labels by


class Config(FromSplit):
    """Three trainings and the two splits between them."""

    prior: Prior = "uniform"
    """What R_A pulls the mean prediction to: estimate is for classes of unequal size. Stage 1 then
    takes the given labels' shares, the others those of the kept labels and of the predictions."""
    relabel: Relabelling
    relabel_schedule: Schedule
    detect_schedule: Schedule
    first_threshold: float = Field(ge=0, le=1)
    """After stage 1 a sample keeps its label if p(noisy) is at most this."""
    second_threshold: float = Field(ge=0, le=1)
    """The same after stage 2."""
    min_labelled: float = Field(default=0.0, ge=0, le=1)
    """At least this share of the expected clean samples stays labelled, in all and per class."""
    track: Literal["train", "test"] = "train"
    """Whether losses are observed on augmented or on plain images."""
    pool: bool = False
    """Judge the second time by the mean of both stages' losses, not by the second's alone."""
    lookup: bool = False
    """Score by the released code's table of 100 entries instead of the exact posterior."""


def split_by_loss(run: Run, evidence: Evidence, threshold: float, config: Config) -> Split:
    """Split by the losses of a network."""
    guard, lookup = config.min_labelled, config.lookup
    return run.keep(detect(evidence, run.labels, threshold, min_labelled=guard, lookup=lookup))


def average_evidence(first: Evidence, second: Evidence) -> Evidence:
    """Both networks' view: each errs on samples of its own."""
    losses, margins = (first.now + second.now) / 2, (first.margins[-1] + second.margins[-1]) / 2
    return Evidence("pooled", losses[None], margins[None], (first.probs + second.probs) / 2)


def estimate_class_shares(run: Run, split: Split, seen: Evidence, config: Config) -> Tensor | None:
    """How many samples belong to each class, by the kept labels and what is seen of the others."""
    if config.prior == "uniform":
        return None
    kept = split.clean[:, None]
    return torch.where(kept, one_hot(run.labels, run.classes), seen.probs).mean(0)


def detect_noise(run: Run, config: Config) -> Outcome:
    """Up to the second split: the list of wrong labels, without the final model."""
    net, split, _ = two_stage_detect(run, config)
    return Outcome(net, split)


def two_stage_detect(run: Run, config: Config) -> tuple[nn.Module, Split, Evidence]:
    """The second network, the second split, and what that network sees."""
    stage = Relabel(run.network(), run.labels, run.classes, config.relabel, config.prior)
    net, augmented = run.fit("relabel", stage, config.relabel_schedule).net, config.track == "train"
    first = run.observe("relabel", net, augmented=augmented)
    split = split_by_loss(run, first, config.first_threshold, config)
    shares = estimate_class_shares(run, split, first, config)
    net = train_semi_supervised(run, "detect", split, config, config.detect_schedule, shares)
    second = run.observe("detect", net, augmented=augmented)
    split = split_by_loss(run, second, config.second_threshold, config)
    if config.pool:
        split = split_by_loss(run, average_evidence(first, second), config.second_threshold, config)
    return net, split, second


def train(run: Run, config: Config) -> Outcome:
    """Relabel to make the losses tell, split, learn from the split, and once more."""
    _, split, seen = two_stage_detect(run, config)
    shares = estimate_class_shares(run, split, seen, config)
    net = train_semi_supervised(run, "final", split, config, config.final_schedule, shares)
    return Outcome(net, split)
