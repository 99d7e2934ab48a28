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
from drpl.training.evaluate import label_losses, label_margins
from drpl.training.losses import one_hot
from drpl.training.predictions import TINY
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
    """Judge the second time by the mean of both stages' losses, not by the second's alone, and in
    the end by the mean of all three networks'."""
    mean_of_epochs: bool = False
    """Judge by the mean of the last prediction and of those that training made anyway in the second
    half of a stage's epochs."""
    mirrored: bool = False
    """Judge by the mean prediction for an image and its mirror image, where training mirrors images
    too. One more pass after a stage."""
    warm_start: bool = False
    """Stages after the first go on with the network before them, and its predictions are their
    first pseudo-labels, in place of a new network and its warm-up."""
    lookup: bool = False
    """Score by the released code's table of 100 entries instead of the exact posterior."""


def split_by_loss(run: Run, evidence: Evidence, threshold: float, config: Config) -> Split:
    """Split by the losses of a network."""
    guard, lookup = config.min_labelled, config.lookup
    return run.keep(detect(evidence, run.labels, threshold, min_labelled=guard, lookup=lookup))


def average_epochs(seen: Evidence, labels: Tensor) -> Evidence:
    """The view of a stage's second half: the mean of its predictions and the last one."""
    if seen.mean_probs is None:  # a stage that was not trained, as in the dry run
        return seen
    probs = (seen.probs + seen.mean_probs) / 2
    log_probs = probs.clamp(min=TINY).log()
    losses, margins = label_losses(log_probs, labels), label_margins(log_probs, labels)
    return Evidence(seen.stage, losses[None], margins[None], probs)


def average_evidence(name: str, *networks: Evidence) -> Evidence:
    """The view of several networks: each errs on samples of its own."""
    losses = torch.stack([seen.now for seen in networks]).mean(0)
    margins = torch.stack([seen.margins[-1] for seen in networks]).mean(0)
    probs = torch.stack([seen.probs for seen in networks]).mean(0)
    return Evidence(name, losses[None], margins[None], probs)


def observe(run: Run, name: str, net: nn.Module, config: Config) -> Evidence:
    """What a stage's network sees, as the configuration wants labels to be judged."""
    seen = run.observe(name, net, augmented=config.track == "train", mirrored=config.mirrored)
    return average_epochs(seen, run.labels) if config.mean_of_epochs else seen


def estimate_class_shares(run: Run, split: Split, seen: Evidence, config: Config) -> Tensor | None:
    """How many samples belong to each class, by the kept labels and what is seen of the others."""
    if config.prior == "uniform":
        return None
    kept = split.clean[:, None]
    return torch.where(kept, one_hot(run.labels, run.classes), seen.probs).mean(0)


def detect_noise(run: Run, config: Config) -> Outcome:
    """Up to the second split: the list of wrong labels, without the final model."""
    net, split, *_ = two_stage_detect(run, config)
    return Outcome(net, split)


def two_stage_detect(run: Run, config: Config) -> tuple[nn.Module, Split, Evidence, Evidence]:
    """The second network, the second split, and what both networks see."""
    stage = Relabel(run.network(), run.labels, run.classes, config.relabel, config.prior)
    net = run.fit("relabel", stage, config.relabel_schedule).net
    first = observe(run, "relabel", net, config)
    split = split_by_loss(run, first, config.first_threshold, config)
    net = learn_from_split(run, "detect", split, (net, first), config, config.detect_schedule)
    second = observe(run, "detect", net, config)
    split = split_by_loss(run, second, config.second_threshold, config)
    if config.pool:
        both = average_evidence("pooled", first, second)
        split = split_by_loss(run, both, config.second_threshold, config)
    return net, split, first, second


def learn_from_split(
    run: Run,
    name: str,
    split: Split,
    before: tuple[nn.Module, Evidence],
    config: Config,
    schedule: Schedule,
) -> nn.Module:
    """The network of a semi-supervised stage; `before` are the last one's and what it sees."""
    net, seen = before
    shares = estimate_class_shares(run, split, seen, config)
    start = (net, seen.probs) if config.warm_start else None
    return train_semi_supervised(run, name, split, config, schedule, shares, start)


def train(run: Run, config: Config) -> Outcome:
    """Relabel to make the losses tell, split, learn from the split, and once more."""
    net, split, first, second = two_stage_detect(run, config)
    net = learn_from_split(run, "final", split, (net, second), config, config.final_schedule)
    if config.pool:
        third = observe(run, "final", net, config)
        every = average_evidence("pooled-final", first, second, third)
        split = split_by_loss(run, every, config.second_threshold, config)
    return Outcome(net, split)
