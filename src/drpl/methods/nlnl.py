"""Negative learning (NLNL, Kim et al., ICCV 2019): learn what an image is not.

A label drawn at random among the others is wrong less often than a given label is right, so "this
is not a ..." is a safe lesson. Three phases: the lesson for all samples (NL), for those that are
not doubted (SelNL), then ordinary learning from the samples that are trusted (SelPL).

    NL, SelNL   L = -w_y sum_k log(1 - p[ybar_k])    SelNL: where pbar[y] >= 1 / C
    SelPL       L = -w_y log p[y]                    where pbar[y] >= confident

pbar is the mean of a sample's training-time predictions in the last ten epochs; w_y is the count
of the largest class over that of y. In the end a label is kept where pbar[y] >= confident.
"""

from dataclasses import replace

import torch
from pydantic import Field
from torch import Generator, Tensor, nn
from torch.nn import functional

from drpl.config.settings import Common, EpochCount
from drpl.detection.split import Split, note_scarce_classes
from drpl.runs.run import Outcome, Run
from drpl.training.evaluate import label_losses, label_margins
from drpl.training.feed import Feed
from drpl.training.schedule import Schedule
from drpl.training.stage import PredictionHistory, Steps
from drpl.training.tables import make_table

TINY = 1e-30  # a probability below this has no logarithm to speak of


class Config(Common):
    """One schedule with three phases."""

    schedule: Schedule
    select_from: EpochCount = Field(gt=0)
    """SelNL from this epoch on."""
    positive_from: EpochCount = Field(gt=0)
    """SelPL from this epoch on."""
    complements: int = Field(default=1, gt=0)
    """Wrong labels drawn for each image and step; more are needed for many classes."""
    confident: float = Field(default=0.5, ge=0, le=1)
    """SelPL trusts, and the method keeps, labels that pbar gives at least this."""
    window: EpochCount = Field(default=10, gt=0)
    """Predictions of this many last epochs are averaged."""


class Negative(PredictionHistory):
    """NL, SelNL and SelPL, one after another under one optimiser."""

    labels: Tensor  # [N]
    weights: Tensor  # [C] rare classes weigh more

    def __init__(self, net: nn.Module, labels: Tensor, classes: int, config: Config) -> None:
        super().__init__(net, len(labels), classes, config.window)
        self.config = config
        counts = labels.bincount(minlength=classes).clamp(min=1)
        self.register_buffer("labels", labels.clone())
        self.register_buffer("weights", counts.max() / counts)

    def epoch(self, feed: Feed) -> Steps:
        """One pass over all samples: who teaches nothing is looked at too, for pbar."""
        c, trust = self.config, self.trust()
        for x, i in feed():
            logits, y = self.classify(feed, x, i), self.labels[i]
            p, w = logits.softmax(1), self.weights[y]
            if feed.epoch < c.positive_from:
                least = 1 / p.shape[1] if feed.epoch >= c.select_from else 0
                wrong = draw_complements(y, p.shape[1], c.complements, feed.rng)
                taught = (trust[i] >= least).to(w)
                name, total = "negative", (taught * w * negative(p, wrong)).sum()
            else:
                taught = (trust[i] >= c.confident).to(w) * w
                each = functional.cross_entropy(logits, y, reduction="none")
                name, total = "positive", (taught * each).sum()
            yield {name: total / taught.sum().clamp(min=1)}  # none: a batch that teaches nothing
        self.remember(feed)

    def trust(self) -> Tensor:
        """pbar[y] of every sample. [N]"""
        parts = [mean.gather(1, self.labels[r][:, None]) for r, mean, _ in self.mean_recent()]
        return torch.cat(parts).squeeze(1)


def negative(p: Tensor, wrong: Tensor) -> Tensor:
    """-sum_k log(1 - p[ybar_k]) of each sample. [B, C], [B, K] -> [B]"""
    return -(1 - p.gather(1, wrong)).clamp(1e-5, 1).log().sum(1)


def draw_complements(labels: Tensor, classes: int, count: int, rng: Generator) -> Tensor:
    """Labels that are not the given one, evenly among the others. [B, K]"""
    steps = torch.randint(1, classes, (len(labels), count), generator=rng)
    return (labels[:, None] + steps.to(labels.device)) % classes


def train(run: Run, config: Config) -> Outcome:
    """Learn negatively, then from the trusted; what is not trusted in the end is called wrong."""
    stage = Negative(run.network(), run.labels, run.classes, config)
    stage = run.fit("train", stage, config.schedule)
    trust, mean = stage.trust().cpu(), make_table(len(run.labels), run.classes)
    now, margin = torch.empty(2, len(run.labels))
    for rows, part, _ in stage.mean_recent():
        mean[rows] = part
        log_probs, y = part.cpu().clamp(min=TINY).log(), run.labels[rows]
        now[rows], margin[rows] = label_losses(log_probs, y), label_margins(log_probs, y)
    seen = run.observe("train", stage.net)
    seen = replace(  # its earlier rows stay; pbar takes the place of the last
        seen,
        losses=torch.cat([seen.losses[:-1], now[None]]),
        margins=torch.cat([seen.margins[:-1], margin[None]]),
        probs=mean,
    )
    run.keep(seen)
    clean = trust >= config.confident
    notes = tuple(note_scarce_classes(clean, run.labels, run.classes))
    split = Split("train", now, 1 - trust.double(), 1 - config.confident, clean, None, notes)
    return Outcome(stage.net, run.keep(split))
