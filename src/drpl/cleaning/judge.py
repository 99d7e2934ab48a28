"""What is known of every label: by the networks of the runs, and by predictions that left it out.

DRPL's losses are the mean of two stages, averaged over seeds; they and the noise model's posterior
each put the samples into an order. The mean of their ranks is the order of the list; losses count
up to twice, less where a class has few samples: a linear classifier learns from fewer than networks
do. How probable a wrong label is, is the posterior at that place, with odds moved such that its
mean is the estimated rate. A label that is more probably wrong than right is an issue. Whether such
an image belongs to another class or to none shows in how sure the networks are and in how far it
lies, in the features of the model, from images that nobody doubts.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor, nn

from drpl.cleaning.estimate import Rate, estimate_rate
from drpl.data.images import Images
from drpl.data.transforms import Transform
from drpl.detection.evidence import Evidence
from drpl.detection.neighbours import CELLS, MOST
from drpl.detection.noise_model import NoiseModel
from drpl.detection.split import keep_lowest
from drpl.randomness import rng
from drpl.registry import METHODS
from drpl.runs import model
from drpl.runs.experiment import Experiment
from drpl.runs.run import Context
from drpl.training.evaluate import predict

VIEWS = 4  # augmented looks of the model at each image
NEIGHBOURS = 5  # that a distance is the mean of
SHOWN = 4  # neighbours named beside an issue
USUAL = 0.95  # share of the undoubted images that lie nearer than distance 1, and are surer
OUTSIDE, UNCLEAR = 2.0, 1.25  # times as far and as unsure as that
LEAST = 1e-6  # probability of a class that logarithms are taken of
CHUNK = 2048  # images compared with others at once, or fewer where these are many
STAGES = 2  # that a loss is the mean of; its ranks count as often
MANY = 700  # samples of a class with which they count half as often, beside a linear classifier
LISTED = 0.5  # probability of a wrong label above which it is an issue


@dataclass(frozen=True)
class Judgement:
    """What is known of every sample. Ids are row numbers."""

    given: Tensor  # [N] labels
    votes: Tensor  # [V, N] what each network says
    stages: Tensor  # [V, N, C] the probabilities that each gives
    features: Tensor  # [N, F] of unit length
    losses: Tensor  # [N] against the given labels
    scores: Tensor  # [N, C] of the classes, that the noise model goes by
    weight: float = STAGES  # of the losses' ranks, where those of the posterior count once
    unsure: bool = False  # whether too little was learnt to exclude that every label is right

    @cached_property
    def probs(self) -> Tensor:
        """The mean over the networks. [N, C]"""
        return self.stages.mean(0)

    @cached_property
    def against(self) -> Tensor:
        """How many networks contradict the given label. [N]"""
        return (self.votes != self.given).sum(0)

    @cached_property
    def noise(self) -> NoiseModel:
        """The noise model of the given labels."""
        return NoiseModel.fit(self.scores, self.given)

    @cached_property
    def rate(self) -> Rate:
        """The share of wrong labels; one that is not sure claims none, so that none is listed."""
        rate = estimate_rate(self.noise)
        return replace(rate, value=0.0, low=0.0) if self.unsure else rate

    @cached_property
    def order(self) -> Tensor:
        """Sample numbers from the best label to the worst, by mean rank of loss and posterior."""
        loss, posterior = (
            values.argsort(stable=True).argsort() for values in (self.losses, self.noise.posterior)
        )
        return (self.weight * loss + posterior).argsort(stable=True)

    @cached_property
    def p_noisy(self) -> Tensor:
        """How probably each label is wrong, if the rate is the most likely one. [N]"""
        return self.scale_posterior(self.rate.value)

    def scale_posterior(self, rate: float) -> Tensor:
        """How probably each label is wrong, if that share of all is. [N]"""
        scaled = torch.empty_like(self._odds)
        scaled[self.order] = (self._odds.sort().values + self.find_shift(rate)).sigmoid()
        return scaled

    def find_shift(self, rate: float) -> float:
        """What is added to the posterior's log-odds to make its mean the rate."""
        rate = min(max(rate, 1e-4), 1 - 1e-4)
        shift: float = brentq(lambda by: float((self._odds + by).sigmoid().mean()) - rate, -60, 60)
        return shift

    @cached_property
    def _odds(self) -> Tensor:
        return self.noise.posterior.clamp(1e-9, 1 - 1e-9).logit()

    @cached_property
    def issues(self) -> Tensor:
        """Which labels are more probably wrong than right. [N] bool"""
        return self.p_noisy > LISTED

    @cached_property
    def best(self) -> tuple[Tensor, Tensor]:
        """How sure the networks are of the best class but the given one, and which it is. [N]"""
        others = self.probs.scatter(1, self.given[:, None], -1.0)
        confidence, label = others.max(1)
        return confidence, label

    @cached_property
    def trusted(self) -> Tensor:
        """The surer half of those whose label nobody contradicts, in each class. [N] bool"""
        sure = self.probs.gather(1, self.given[:, None]).squeeze(1)
        trusted = torch.zeros_like(self.issues)
        for label in self.given.unique():
            members = self.given == label
            agreed = members & (self.against == 0) & ~self.issues
            pool = agreed if bool(agreed.any()) else members
            trusted |= pool & (sure >= sure[pool].median())
        return trusted

    @cached_property
    def outlier_score(self) -> Tensor:
        """How far from all classes a sample looks; about 1 is the most that is usual. [N]"""
        reference = self.trusted.nonzero().flatten()
        # The least contradicted: where networks learnt nothing, no label may be undoubted.
        far, usual = self._measure_distance(reference), self.against == self.against.min()
        unsure = 1 - self.probs.amax(1)
        ratios = [value / value[usual].quantile(USUAL).clamp(min=1e-6) for value in (far, unsure)]
        return (ratios[0] * ratios[1]).sqrt()

    def _measure_distance(self, reference: Tensor) -> Tensor:
        """Mean cosine distance to the nearest reference samples but the sample itself. [N]

        Of more than `MOST` references some are drawn, as many of each class.
        """
        if len(reference) > MOST:
            draws, classes = torch.rand(len(reference), generator=rng("near")), self.probs.shape[1]
            drawn = keep_lowest(draws, self.given[reference], classes, MOST // classes + 1)
            reference = reference[drawn]
        others = self.features[reference]
        count = min(NEIGHBOURS, len(reference) - 1)
        distances = []
        for index in torch.arange(len(self.given)).split(CHUNK):
            near = self.features[index] @ others.T
            near[index[:, None] == reference] = -torch.inf
            distances.append(1 - near.topk(max(1, count)).values.mean(1))
        return torch.cat(distances).clamp(min=0)

    @cached_property
    def outside(self) -> Tensor:
        """Which samples lie far from all classes. [N] bool"""
        return self.outlier_score >= OUTSIDE

    @cached_property
    def verdicts(self) -> list[str]:
        """What is wrong with each sample, if it is an issue."""
        return self.give_verdicts(self.given)

    def give_verdicts(self, labels: Tensor) -> list[str]:
        """What would be wrong with each sample, if it had these labels."""
        one_class = (self.votes == self.votes[0]).all(0) & (self.votes[0] != labels)
        usual = self.outlier_score < UNCLEAR
        kinds = np.where(usual & one_class, "mislabelled", "ambiguous")
        return list(np.where(self.outside, "outside", kinds))

    @cached_property
    def truth(self) -> tuple[Tensor, Tensor]:
        """The true class of every sample as far as one knows, and whether it belongs to any. [N]

        A label that is no issue is taken as true, for an issue the suggestion is.
        """
        labels = torch.where(self.issues, self.best[1], self.given)
        return labels, ~(self.issues & self.outside)

    def find_near(self, index: Tensor, labels: Tensor) -> list[str]:
        """Ids of the nearest trusted samples of a class, for each of some samples."""
        near_ids = [""] * len(index)
        for label in labels.unique().tolist():
            rows = (labels == label).nonzero().flatten()
            pool = (self.trusted & (self.given == label)).nonzero().flatten()
            for part in rows.split(min(CHUNK, max(1, CELLS // max(1, len(pool))))):
                near = self.features[index[part]] @ self.features[pool].T
                near[index[part][:, None] == pool] = -torch.inf  # not itself
                values, at = near.topk(min(SHOWN, len(pool)))
                for row, found, ids in zip(part.tolist(), values, pool[at], strict=True):
                    near_ids[row] = " ".join(map(str, ids[found > -torch.inf].tolist()))
        return near_ids


def judge(folder: Path, experiment: Experiment, device: torch.device) -> Judgement:
    """What the networks of a run say of the data that they were trained on.

    These are the model and those whose evidence the method declares.
    """
    net, context = model.load(folder).net.to(device), Context.build(experiment, device)
    images, transform = experiment.data.train.images, context.train_transform
    looks = [
        predict(net, images, transform, device, (experiment.seed, "clean", k)).exp()
        for k in range(VIEWS if transform.num_uniforms else 1)
    ]
    stages = METHODS[experiment.method.name].load().EVIDENCE
    seen = [Evidence.read(folder / "evidence" / f"{name}.npz") for name in stages]
    probs = torch.stack([*(one.probs for one in seen), torch.stack(looks).mean(0)])
    losses = torch.stack([one.now for one in seen]).mean(0)  # runs of other seeds end there
    features = _extract_features(net, images, context.eval_transform, device)
    scores = probs.mean(0).clamp(min=LEAST).log()
    return Judgement(context.labels, probs.argmax(2), probs, features, losses, scores)


def merge(runs: list[Judgement], left_out: Tensor | None = None) -> Judgement:
    """The judgement of several seeds: their answers and losses are averaged.

    The noise model goes by `left_out`, predictions that have not seen the label, where there are
    such; else by the networks' own. [N, C]
    """
    first = runs[0]
    probs = torch.stack([run.stages for run in runs]).mean(0)
    losses = torch.stack([run.losses for run in runs]).mean(0)
    if left_out is None:
        scores, weight = probs.mean(0).clamp(min=LEAST).log(), float(STAGES)
    else:
        scores, weight = left_out, weigh_losses(*left_out.shape)
    votes = probs.argmax(2)
    return Judgement(first.given, votes, probs, first.features, losses, scores, weight)


def weigh_losses(samples: int, classes: int) -> float:
    """How much the ranks of losses count, where those of leave-one-out predictions count once."""
    share = (samples / classes / MANY) ** 2
    return STAGES * share / (1 + share)


@torch.no_grad()
def _extract_features(
    net: nn.Module, images: Images, transform: Transform, device: torch.device
) -> Tensor:
    """What the network's last linear layer receives, of unit length. [N, F]"""
    last = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
    inputs: list[Tensor] = []
    hook = last.register_forward_pre_hook(lambda _, received: inputs.append(received[0].cpu()))
    try:
        predict(net, images, transform, device)
    finally:
        hook.remove()
    return nn.functional.normalize(torch.cat(inputs).float())
