"""ProMix (Xiao et al., IJCAI 2023): make the most of clean samples, with as little bias as can be.

Two networks learn, each with a second classifier for what is less sure. A network believes samples
of the smallest losses of a class, or whose label it is sure of, and late those whose other class
both are sure of.

    classifier   CE(weak) + w (CE(strong) + CE(mixup) + CE(FMix))               of the believed
    second one   the same, + b (H(q, weak) + w H(q, strong))                    of the others
    q = sharpen(softmax(z - debias log pi'))

To logits z of a loss debias log pi is added, pi the running mean prediction for believed samples,
pi' for the others. w and b rise from 0.
"""

from math import ceil
from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from drpl.config.settings import IN_EPOCHS, EpochCount, StrongView
from drpl.detection.split import keep_lowest
from drpl.methods import cross_entropy as baseline
from drpl.networks.ensemble import Ensemble
from drpl.networks.head import SecondClassifier
from drpl.runs.run import Outcome, Run
from drpl.training.evaluate import label_losses
from drpl.training.feed import Feed
from drpl.training.fmix import draw_masked_mix
from drpl.training.losses import cross_entropy, draw_mix, masked_cross_entropy, one_hot, sharpen
from drpl.training.prior import ClassPrior
from drpl.training.stage import Stage, Steps

Tensors = tuple[Tensor, ...]
FULL = 0.9  # share of a batch up to which agreed labels are added
ALPHA, SMOOTH, COLD = 4.0, 3.0, 0.5  # of mixup, of FMix, of the sharpening


class Config(baseline.Config):
    """One schedule for both networks, and whom they believe."""

    begin: EpochCount = Field(gt=0)
    """Until this epoch all labels are believed."""
    agree_from: EpochCount = Field(gt=0)
    """From this epoch on, labels that both networks agree on are believed, too."""
    share: float = Field(default=0.5, gt=0, le=1)
    """Of each class, as if all were equally large, the part with the smallest losses."""
    sure: float = Field(default=0.99, gt=0, le=1)
    """A prediction that is to be believed is higher than this."""
    debias: float = Field(default=0.8, ge=0)
    """How strongly classes that are predicted often are held back."""
    decay: float = Field(default=0.9999, ge=0, lt=1)
    """How much of pi is kept from one batch to the next."""
    ramp: Annotated[float, IN_EPOCHS] = Field(default=50.0, gt=0)
    """Epochs in which w, the weight of strong and mixed views, rises to 1."""
    others: float = Field(default=0.1, ge=0)
    """What b rises to, over twice as many epochs; 0 leaves the others out."""
    strong: StrongView = StrongView(operations=3)


class ProMix(Stage):
    """Both networks under one optimiser."""

    net: Ensemble
    labels: Tensor  # [N] as given

    def __init__(
        self, nets: list[nn.Module], labels: Tensor, classes: int, config: Config, rng: Generator
    ) -> None:
        super().__init__(Ensemble(*nets), labels=labels.clone())
        self.believed = nn.ModuleList(ClassPrior(classes, config.decay) for _ in nets)
        self.unbelieved = nn.ModuleList(ClassPrior(classes, config.decay) for _ in nets)
        self.seconds = nn.ModuleList(SecondClassifier(net, classes, rng) for net in nets)
        self.classes, self.config = classes, config

    def epoch(self, feed: Feed) -> Steps:
        """Believe all; or choose by each network's losses, and train both."""
        pairs = list(zip(self.seconds, self.net.members, strict=True))
        if feed.epoch <= self.config.begin:
            for x, i in feed():
                answers = [net(x) for _, net in pairs]
                feed.record(i, sum(z.softmax(1) for z in answers) / 2)
                y = one_hot(self.labels[i], self.classes)
                yield {f"classify {k}": cross_entropy(z, y) for k, z in enumerate(answers, 1)}
            return
        most = ceil(self.config.share * len(self.labels) / self.classes)
        looks = [label_losses(feed.predict_all(net), self.labels) for _, net in pairs]
        small = [keep_lowest(losses, self.labels, self.classes, most) for losses in looks]
        for weak, strong, i in feed(strong=1):
            both = torch.cat([weak, strong])
            answers = [[z.chunk(2) for z in second(net, both)] for second, net in pairs]
            probs = tuple(first[0].detach().float().softmax(1) for first, _ in answers)
            feed.record(i, (probs[0] + probs[1]) / 2)
            terms: dict[str, Tensor] = {}
            for k, (first, second) in enumerate(answers):
                chosen, targets = self.believe(k, small[k][i], probs, i, feed.epoch)
                batch = weak, chosen, targets
                terms[f"first {k + 1}"] = self.fit_believed(k, 0, first, batch, feed)
                terms[f"second {k + 1}"] = self.fit_believed(k, 1, second, batch, feed)
                terms[f"others {k + 1}"] = self.fit_others(k, first[0], second, ~chosen, feed.epoch)
                self.believed[k].follow(probs[k], chosen)  # type: ignore[operator]
                self.unbelieved[k].follow(probs[k], ~chosen)  # type: ignore[operator]
            yield terms

    def believe(self, k: int, small: Tensor, probs: Tensors, i: Tensor, epoch: int) -> Tensors:
        """Whom a network believes [B], and with which label. [B, C]"""
        c, given = self.config, self.labels[i]
        chosen = small | (probs[k].gather(1, given[:, None]).squeeze(1) > c.sure)
        targets = one_hot(given, self.classes)
        room = int(FULL * len(i)) - int(chosen.sum())
        if epoch >= c.agree_from and room > 0:
            (sure, guess), (also, same) = (p.max(1) for p in probs)
            agreed = (guess == same) & (torch.minimum(sure, also) > c.sure) & ~chosen
            order = torch.where(agreed, sure + also, -1).argsort(descending=True, stable=True)
            added = order[: min(room, int(agreed.sum()))]
            fair = self.believed[k](probs[k][added].log(), -c.debias).argmax(1)
            targets[added] = one_hot(fair, self.classes)
            chosen = chosen.index_fill(0, added, True)
        return chosen, targets

    def fit_believed(self, k: int, head: int, views: Tensors, batch: Tensors, feed: Feed) -> Tensor:
        """What a classifier of a network learns from believed samples: four views of them."""
        c, debias, (x, chosen, targets) = self.config, self.believed[k], batch
        w = min((feed.epoch - 1) / c.ramp, 1)
        weak, strong = (masked_cross_entropy(debias(z, c.debias), targets, chosen) for z in views)
        if int(chosen.sum()) < 2:  # batch norm wants two
            return weak + w * strong
        x, targets = x[chosen], targets[chosen]
        mix = draw_mix(x, ALPHA, feed.rng, mostly_own=True)
        joined = draw_masked_mix(x, 1.0, SMOOTH, feed.rng)
        z = self.seconds[k](self.net.members[k], torch.cat([mix.blend(x), joined.blend(x)]))[head]
        t = torch.cat([mix.blend(targets), joined.blend_targets(targets)])
        return weak + w * (strong + 2 * cross_entropy(debias(z, c.debias), t))

    def fit_others(self, k: int, first: Tensor, views: Tensors, mask: Tensor, epoch: int) -> Tensor:
        """What the second classifier learns from guesses for the other samples."""
        c, debias = self.config, self.unbelieved[k]
        w, b = min((epoch - 1) / c.ramp, 1), c.others * min((epoch - 1) / (2 * c.ramp), 1)
        q = sharpen(debias(first.detach().float(), -c.debias).softmax(1), COLD)
        weak, strong = (masked_cross_entropy(debias(z, c.debias), q, mask) for z in views)
        return b * (weak + w * strong)


def train(run: Run, config: Config) -> Outcome:
    """Train both networks; judge labels by the final loss of both together."""
    nets = [run.network(), run.network()]
    stage = ProMix(nets, run.labels, run.classes, config, run.rng("second"))
    return baseline.fit_and_judge(run, stage, config)
