"""Dynamic bootstrapping (Arazo et al., ICML 2019): believe a label as far as its loss deserves.

A beta mixture is fitted to the losses after every epoch. From epoch `begin` on, each target is the
given label y as far as the sample is clean and the network's own guess z as far as it is noisy;
pairs of images and of such targets are mixed up. Before, it is mixup.

    w = p(noisy | loss of this view)      t = (1 - w) y + w z
    L = l CE(t) + (1 - l) CE(t') + prior R_A,   l ~ Beta(alpha, alpha)

z is the most probable class (hard, M-DYR-H) or the prediction (soft, M-DYR-S). MD-DYR-SH
(soft_to_hard) mixes images by (1 - w) / ((1 - w) + (1 - w')) and cools z from soft to hard.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from drpl.config.settings import EpochCount
from drpl.detection.mixture import BetaMixture, Scale
from drpl.methods import cross_entropy as baseline
from drpl.methods.mixup import Mixup
from drpl.runs.run import Outcome, Run
from drpl.training.evaluate import label_losses
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, draw_weight, from_uniform, mixup, one_hot
from drpl.training.stage import Steps, Terms

EDGE = 1e-4  # no label is believed or doubted entirely
COLDEST = 0.001  # temperature at which a soft guess has become a hard one


class Config(baseline.Config):
    """The baseline's schedule, and when and how labels are doubted."""

    begin: EpochCount = Field(gt=0)
    """Bootstrapping from this epoch on; mixup before."""
    kind: Literal["hard", "soft", "soft_to_hard"] = "hard"
    """M-DYR-H, M-DYR-S or MD-DYR-SH."""
    alpha: float = Field(default=32.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha)."""
    prior: float = 1.0
    """Weight of R_A, from `begin` on."""
    delay: EpochCount = Field(default=5, ge=0)
    """soft_to_hard: epochs from `begin` on in which images are mixed by w but labels believed."""
    cooling: EpochCount = Field(default=89, gt=1)
    """soft_to_hard: epochs over which the temperature of the guesses then falls from 1 to 0.001."""
    lookup: bool = False
    """Score by the released code's table of 100 entries instead of the exact posterior."""


class Bootstrap(Mixup):
    """Mixup that turns to its own guesses where the mixture of the losses says noise."""

    fitted: Tensor  # [4, 2] of the mixture: alpha, beta, weight, and (lo, hi) of its scale

    def __init__(self, net: nn.Module, targets: Tensor, config: Config) -> None:
        super().__init__(net, targets, config.alpha)
        self.config = config
        nothing_noisy = [(1, 1), (1, 1), (1, 0), (0, 1)]
        self.register_buffer("fitted", torch.tensor(nothing_noisy, dtype=torch.float64))

    def epoch(self, feed: Feed) -> Steps:
        """One pass, then a mixture for the next."""
        if feed.epoch < self.config.begin:
            yield from super().epoch(feed)
        else:
            for x, i in feed():
                yield self.terms(x, i, feed)
        if feed.epoch >= self.config.begin - 1:
            seen = feed.predict_all(self.net, augmented=True)
            m = BetaMixture.fit(label_losses(seen, self.targets.argmax(1)))
            rows = m.alpha, m.beta, m.weight, (m.scale.lo, m.scale.hi) if m.scale else (0, 1)
            self.fitted.copy_(torch.tensor(rows, dtype=torch.float64))

    def terms(self, x: Tensor, i: Tensor, feed: Feed) -> Terms:
        """The loss of a mixed batch whose noisy labels are replaced by guesses."""
        p = self.guess(x)
        z = p if self.config.kind == "soft" else one_hot(p.argmax(1), p.shape[1])
        t = torch.lerp(self.targets[i], z, self.estimate_noise(x, i, feed))
        x, t, _ = mixup(x, t, self.config.alpha, feed.rng)
        return self.regularise(x, t)

    def guess(self, x: Tensor, temperature: float = 1.0) -> Tensor:
        """Predictions of plain images, in training mode: batch norm sees these too. [B, C]"""
        with torch.no_grad():
            logits: Tensor = self.net(x).float()
        return (logits / temperature).softmax(1)

    def estimate_noise(self, x: Tensor, i: Tensor, feed: Feed) -> Tensor:
        """How probably each label is wrong, by its loss on this very view. [B, 1]"""
        self.net.eval()
        with torch.no_grad():
            seen = self.net(x).float().log_softmax(1)
        self.net.train()
        feed.record(i, seen.exp())
        alpha, beta, weight, scale = map(tuple, self.fitted.tolist())
        mixture = BetaMixture(alpha, beta, weight, Scale(*scale), self.config.lookup)
        w = mixture.noisy(label_losses(seen, self.targets[i].argmax(1))).clamp(EDGE, 1 - EDGE)
        return w.to(seen)[:, None]

    def regularise(self, x: Tensor, t: Tensor) -> Terms:
        """Cross-entropy on mixed images and their R_A."""
        logits = self.net(x)
        prior = self.config.prior * from_uniform(logits.softmax(1))
        return {"bootstrap": cross_entropy(logits, t), "prior": prior}


class SoftToHard(Bootstrap):
    """MD-DYR-SH: clean images weigh more in each pair, and guesses harden with time."""

    def terms(self, x: Tensor, i: Tensor, feed: Feed) -> Terms:
        """At first only the images are mixed by w, later the labels are doubted too."""
        c, w, t = self.config, self.estimate_noise(x, i, feed), self.targets[i]
        since = feed.epoch - c.begin - c.delay
        if since < 0:
            x, t = mix_by_noise(x, t, w, draw_weight(c.alpha, feed.rng), feed.rng)
            return {"mixup": cross_entropy(self.net(x), t)}
        temperature = 1 - (1 - COLDEST) * min(since / (c.cooling - 1), 1)
        t = torch.lerp(t, self.guess(x, temperature), w)
        return self.regularise(*mix_by_noise(x, t, w, 0.5, feed.rng))


def mix_by_noise(
    x: Tensor, targets: Tensor, w: Tensor, weight: float, rng: Generator
) -> tuple[Tensor, Tensor]:
    """Pairs in which the cleaner image weighs more; their targets are mixed by `weight`."""
    partner = torch.randperm(len(x), generator=rng).to(x.device)
    share = (1 - w) / ((1 - w) + (1 - w[partner]))
    share = share.view(-1, *(1,) * (x.dim() - 1))
    return torch.lerp(x[partner], x, share), torch.lerp(targets[partner], targets, weight)


def train(run: Run, config: Config) -> Outcome:
    """Mixup, then mixup of doubted labels; judge labels by the final loss."""
    kind = SoftToHard if config.kind == "soft_to_hard" else Bootstrap
    stage = kind(run.network(), one_hot(run.labels, run.classes), config)
    return baseline.fit_and_judge(run, stage, config)
