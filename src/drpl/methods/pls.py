"""PLS (Albert et al., WACV 2023): trust a guessed label by the loss of the guess.

Labels with a high loss, by a mixture of two Gaussians, are noisy and replaced by guesses g. Against
its guess such a sample has a pseudo-loss, of which a second mixture makes its weight w: a guess
that the network does not confirm teaches little. Others have w = 1. t is the label, or the guess.

    g = o^2 / sum_c o_c^2         o the mean prediction of two weak views, no gradient
    L_c = l sum_i w_i H(t_i, p_i) / sum w  +  (1 - l) the same of the partners s on the mixed images
    L_b = R_A                     no class may vanish
    L_u = H(S, softmax(f f'^T / T)), rows of S divided by their sums
    S_ij = w_i w_j [same class]   S_ii = w_i^2 + (1 - w_i)^2   then S <- l S + (1 - l) S_s

f embeds the mixed images, f' strong views of the plain ones: what is not trusted is only to be near
itself. L = L_c + L_b + L_u. Until `begin` L is cross-entropy on mixed images with given labels.
"""

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from drpl.config.settings import EpochCount, StrongView
from drpl.detection.gaussians import fit_lower_gaussian, rescale
from drpl.distributed import broadcast
from drpl.methods import cross_entropy as baseline
from drpl.networks.head import ProjectionHead
from drpl.runs.run import Outcome, Run
from drpl.training.contrastive import contrastive_losses, match_labels
from drpl.training.evaluate import label_losses
from drpl.training.feed import Feed
from drpl.training.losses import Mix, cross_entropy, draw_mix, from_uniform, one_hot, sharpen
from drpl.training.stage import Stage, Steps, Terms
from drpl.training.tables import TableUpdate

FEW = 2  # noisy samples up to which no mixture of their pseudo-losses is fitted


class Config(baseline.Config):
    """The baseline's schedule, strong views, and when a label is replaced."""

    strong: StrongView = StrongView(area=0.08, operations=0, jitter=0.8, grey=0.2)
    begin: EpochCount = Field(gt=0)
    """Until after this epoch all labels are believed."""
    noisy_above: float = Field(default=0.95, ge=0, le=1)
    """A label is replaced if the mixture gives noise more than this."""
    alpha: float = Field(default=1.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha); a row's own is the larger."""
    embedding: int = Field(default=128, gt=0)
    """Numbers of the embedding of which pairs are compared."""
    temperature: float = Field(default=0.2, gt=0)
    """T, by which their similarities are divided."""


class PseudoLossSelection(Stage):
    """Fit trusted labels and trusted guesses; embed all samples."""

    labels: Tensor  # [N] as given
    guesses: Tensor  # [N, C] g of the last epoch
    noisy: Tensor  # [N] bool, m
    weights: Tensor  # [N] w

    def __init__(
        self, net: nn.Module, labels: Tensor, classes: int, config: Config, rng: Generator
    ) -> None:
        super().__init__(
            net,
            labels=labels.clone(),
            guesses=one_hot(labels, classes),
            noisy=torch.zeros(len(labels), dtype=torch.bool),
            weights=torch.ones(len(labels)),
        )
        self.head, self.config = ProjectionHead(net, config.embedding, rng), config

    def list_taught(self) -> Tensor:
        """The given label, or the last guess where it is replaced."""
        return torch.where(self.noisy, self.guesses.argmax(1), self.labels)

    def epoch(self, feed: Feed) -> Steps:
        """One pass; then labels and guesses are judged for the next one."""
        warm = feed.epoch <= self.config.begin
        yield from self.warm_up(feed) if warm else self.learn(feed)
        if feed.epoch >= self.config.begin:
            self.judge(feed.predict_all(self.net), trust_all=warm)

    def warm_up(self, feed: Feed) -> Steps:
        """Mixed images with the given labels."""
        for x, i in feed():
            mix = draw_mix(x, self.config.alpha, feed.rng, mostly_own=True)
            t = one_hot(self.labels[i], self.guesses.shape[1])
            yield {"classify": cross_entropy(self.classify(feed, mix.blend(x), i), mix.blend(t))}

    def learn(self, feed: Feed) -> Steps:
        """Guess, and learn from labels, guesses and pairs."""
        found = TableUpdate(*self.guesses.shape, device=self.guesses.device)
        for x, x2, s, i in feed(views=2, strong=1):
            with torch.no_grad():  # in training mode
                seen = (self.net(x).softmax(1) + self.net(x2).softmax(1)) / 2
            feed.record(i, seen)
            guess = sharpen(seen.float(), 0.5)
            found.put(i, guess)
            yield self.compare(x, s, i, guess, feed.rng)
        for rows, new, visited in found.gather():
            self.guesses[rows] = torch.where(visited, new, self.guesses[rows])

    def compare(self, x: Tensor, s: Tensor, i: Tensor, guess: Tensor, rng: Generator) -> Terms:
        """The loss of a batch of weak and strong views, with a guess for each sample."""
        c, noisy = self.config, self.noisy[i]
        t = torch.where(noisy[:, None], guess, one_hot(self.labels[i], guess.shape[1]))
        w = torch.where(noisy, self.weights[i], 1.0)
        mix = draw_mix(x, c.alpha, rng, mostly_own=True)
        logits, f = self.head(self.net, mix.blend(x))
        _, others = self.head(self.net, s)
        pairs = match_pairs(mix.blend(t).argmax(1), w, mix)
        return {
            "classify": weigh_mixed(logits, t, w, mix),
            "prior": from_uniform(logits.softmax(1)),
            "pairs": contrastive_losses(f, others, pairs, c.temperature).mean(),
        }

    def judge(self, log_probs: Tensor, *, trust_all: bool) -> None:
        """Whose label is noisy, and how far guesses are trusted, by the plain images [N, C]."""
        # The first process decides, so that all decide the same.
        clean = fit_lower_gaussian(rescale(label_losses(log_probs, self.labels)))
        self.noisy.copy_(broadcast(1 - clean) > self.config.noisy_above)
        self.weights.fill_(1)
        if not trust_all and int(self.noisy.sum()) > FEW:
            losses = -(self.guesses[self.noisy] * log_probs[self.noisy]).sum(1)
            self.weights[self.noisy] = broadcast(fit_lower_gaussian(rescale(losses)))


def weigh_mixed(logits: Tensor, t: Tensor, w: Tensor, mix: Mix) -> Tensor:
    """L_c: the weighted mean over rows' own targets and that over their partners', mixed."""
    log_p = logits.log_softmax(1)
    own, others = (
        -(w[rows] * (t[rows] * log_p).sum(1)).sum() / w[rows].sum().clamp(min=1e-8)
        for rows in (slice(None), mix.partner)
    )
    return mix.weight * own + (1 - mix.weight) * others


def match_pairs(classes: Tensor, w: Tensor, mix: Mix) -> Tensor:
    """S: who is wanted near whom, between mixed images and plain ones. [B, B]"""
    alike = w[:, None] * w[None, :] * match_labels(classes, classes)
    return mix.blend(alike + torch.diag((1 - w) ** 2))


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss."""
    net, rng = run.network(), run.rng("head")
    stage = PseudoLossSelection(net, run.labels, run.classes, config, rng)
    return baseline.fit_and_judge(run, stage, config)
