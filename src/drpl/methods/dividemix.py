"""DivideMix (Li et al., ICLR 2020): two networks divide the samples for each other.

After a warm-up, each network's losses are divided by a mixture of two Gaussians; w is the
probability of the lower one. Samples with w > p_threshold keep their label for the OTHER network,
the rest are unlabelled to it, and it is trained on both by MixMatch.

    warm-up   L = CE + mean_i sum_c p log p           the latter only under asymmetric noise
    refine    q_x = w y + (1 - w) mean of p(x1), p(x2)             two views, its own p
    guess     q_u = mean of p(u1), p(u2), p'(u1), p'(u2)           both networks' p
    sharpen   q   = q^(1/T) / sum_c q^(1/T)
    MixMatch  L = CE(X') + lambda_u(t) mean |p(U') - q(U')|^2 + R_A
              X', U' are (x1, x2), (u1, u2), each row mixed with any other
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import IN_EPOCHS, Common, EpochCount
from drpl.detection.gaussians import fit_lower_gaussian, rescale
from drpl.detection.split import Split, divide, note_scarce_classes
from drpl.distributed import broadcast
from drpl.networks.ensemble import Ensemble
from drpl.runs.run import Outcome, Run
from drpl.training.evaluate import label_losses
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, entropy, from_uniform, mixup, one_hot, sharpen
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Steps, Terms


class Config(Common):
    """One schedule for both networks; its batch size is that of the labelled samples."""

    schedule: Schedule
    begin: EpochCount = Field(gt=0)
    """Samples are first divided after this epoch; until then all labels are believed."""
    penalty: bool = False
    """Whether confidence is punished until then: for asymmetric noise."""
    p_threshold: float = Field(default=0.5, ge=0, le=1)
    """A sample keeps its label if w is above this."""
    average_losses: int = Field(default=1, gt=0)
    """Losses of this many last epochs are averaged before they are divided; 5 for 90 % noise."""
    temperature: float = Field(default=0.5, gt=0)
    """T of the sharpening."""
    alpha: float = Field(default=4.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha); a row's own is the larger."""
    lambda_u: float = Field(default=25.0, ge=0)
    """Weight of the squared error on U'; where it is 0, U' is not even forwarded."""
    ramp: Annotated[float, IN_EPOCHS] = Field(default=16.0, gt=0)
    """Epochs in which that weight rises from 0."""


class DivideMix(Stage):
    """Both networks under one optimiser: who has no gradient in a step is left alone by it."""

    net: Ensemble
    labels: Tensor  # [N]
    recent: Tensor  # [2, W, N] scaled losses of each network

    def __init__(
        self, nets: tuple[nn.Module, nn.Module], labels: Tensor, classes: int, config: Config
    ) -> None:
        recent = torch.zeros(2, config.average_losses, len(labels))
        super().__init__(Ensemble(*nets), labels=labels, recent=recent)
        self.classes, self.config = classes, config

    def epoch(self, feed: Feed) -> Steps:
        """Warm up; or divide by each network, then train the first, then the second."""
        first, second = self.net.members
        if feed.epoch <= self.config.begin:
            for net in (first, second):
                for x, i in feed(batch_size=2 * feed.batch_size):
                    yield self.believe(self.classify(feed, x, i, net), i)
            return
        looks = [label_losses(feed.predict_all(net), self.labels) for net in (first, second)]
        scaled = self.scale_losses(looks, feed.epoch)
        # The first process decides: over sets of unequal size the others would wait for ever.
        by_first, by_second = (broadcast(fit_lower_gaussian(one)) for one in scaled)
        yield from self.mixmatch(first, second, by_second, feed)
        yield from self.mixmatch(second, first, by_first, feed)

    def believe(self, logits: Tensor, i: Tensor) -> Terms:
        """The loss of the warm-up."""
        terms = {"classify": cross_entropy(logits, one_hot(self.labels[i], self.classes))}
        if self.config.penalty:
            terms["confidence"] = -entropy(logits.softmax(1))
        return terms

    def scale_losses(self, now: list[Tensor], epoch: int) -> Tensor:
        """Each network's losses before this epoch, from 0 to 1, with those of the last. [2, N]"""
        window = self.config.average_losses
        for recent, loss in zip(self.recent, now, strict=True):
            recent[epoch % window] = rescale(loss)
        return self.recent.sum(1) / min(window, max(1, epoch - self.config.begin))

    def mixmatch(self, net: nn.Module, peer: nn.Module, w: Tensor, feed: Feed) -> Steps:
        """One network's pass over the samples that keep their label, and as many of the others."""
        c = self.config
        labelled, unlabelled = divide(w, c.p_threshold)
        steps = len(labelled) // feed.batch_size + 1
        batches = zip(feed(labelled, views=2), feed.cycle(unlabelled, views=2), strict=False)
        peer.eval()
        for step, ((x1, x2, i), (u1, u2, j)) in enumerate(batches):
            with torch.no_grad():  # the network itself in training mode
                own = (net(x1).softmax(1) + net(x2).softmax(1)) / 2
                guesses = [one(u).softmax(1) for one in (net, peer) for u in (u1, u2)]
                guess = torch.stack(guesses).mean(0)
                refined = refine(w[i], one_hot(self.labels[i], self.classes), own)
                q_x, q_u = (sharpen(q, c.temperature) for q in (refined, guess))
            feed.record(i, own)
            feed.record(j, guess)
            x, q = torch.cat([x1, x2, u1, u2]), torch.cat([q_x, q_x, q_u, q_u])
            x, q, _ = mixup(x, q, c.alpha, feed.rng, mostly_own=True)
            split = len(x1) + len(x2)
            logits = net(x if c.lambda_u else x[:split])
            p = logits.softmax(1)
            terms = {"labelled": cross_entropy(logits[:split], q[:split]), "prior": from_uniform(p)}
            if c.lambda_u:
                error = (p[split:] - q[split:]).square().mean()
                terms["unlabelled"] = self.weight(feed.epoch - 1 + step / steps) * error
            yield terms
        peer.train()

    def weight(self, epochs: float) -> float:
        """lambda_u(t) after this many epochs."""
        c = self.config
        return c.lambda_u * min(max((epochs - c.begin) / c.ramp, 0), 1)


def refine(w: Tensor, given: Tensor, predicted: Tensor) -> Tensor:
    """w y + (1 - w) p: the more doubtful a label, the more the network's own view. [B, C]"""
    return torch.lerp(predicted.float(), given, w[:, None])


def train(run: Run, config: Config) -> Outcome:
    """Train both networks; judge labels as they would divide the samples next."""
    nets = run.network(), run.network()
    stage = run.fit("train", DivideMix(nets, run.labels, run.classes, config), config.schedule)
    run.observe("train", stage.net, augmented=False)
    seen = [run.observe(f"train-{k}", net, augmented=False) for k, net in enumerate(nets, 1)]
    scaled = stage.scale_losses([one.now for one in seen], config.schedule.epochs + 1)
    w = torch.stack([broadcast(fit_lower_gaussian(one)) for one in scaled]).mean(0).cpu()
    clean = w > config.p_threshold
    notes = tuple(note_scarce_classes(clean, run.labels, run.classes))
    split = Split("train", scaled.mean(0).cpu(), 1 - w, 1 - config.p_threshold, clean, None, notes)
    return Outcome(stage.net, run.keep(split))
