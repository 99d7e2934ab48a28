"""Multi-objective interpolation training (MOIT, Ortego et al., CVPR 2021).

A classifier and an embedding learn together from mixed images: supervised contrastive learning
survives wrong labels if its images, too, lie between two of them. Samples whose label disagrees
with their neighbours in the embedding then lose it, and are taught what the network predicts.

    views mixed by (l, s) each; z embeddings of both, q_ij = softmax_j(z_i . z_j / T), j != i
    near(i, S) = -sum_j S_ij log q_ij / sum_j S_ij
    ICL = mean_i l near(i, [y_j = y_i]) + (1 - l) near(i, [y_j = y_s(i)] + [j is of s(i)])
    L = ICL(batch) + ICL(batch and memory) + CE(mixed targets)

Targets are the given labels until epoch `begin`, and then those of clean samples only.
"""

from dataclasses import replace

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from drpl.config.settings import EpochCount, StrongView
from drpl.detection.consensus import measure_disagreement, share_soft_labels
from drpl.detection.split import FEWEST, keep_lowest
from drpl.distributed import broadcast
from drpl.methods import cross_entropy as baseline
from drpl.networks.head import Embedder, ProjectionHead
from drpl.runs.run import Outcome, Run
from drpl.training.contrastive import EmbeddingMemory, contrastive_losses, match_labels
from drpl.training.feed import Feed
from drpl.training.losses import Mix, cross_entropy, draw_mix, one_hot
from drpl.training.stage import Stage, Steps


class Config(baseline.Config):
    """The baseline's schedule, the contrastive part, and when labels are doubted."""

    begin: EpochCount = Field(gt=0)
    """Noisy labels are found after this epoch; until then all are believed."""
    embedding: int = Field(default=128, gt=1)
    """Numbers of the embedding."""
    temperature: float = Field(default=0.1, gt=0)
    """T of the contrastive loss."""
    memory: int = Field(default=200, gt=0)
    """Embeddings that are remembered, for each class."""
    remember_from: EpochCount = Field(default=4, gt=0)
    """From this epoch on they are compared with, if the memory is full by then."""
    alpha: float = Field(default=1.0, gt=0)
    """Mixup weights are drawn from Beta(alpha, alpha); a row's own is the larger."""
    strong: StrongView = StrongView()


class Interpolate(Stage):
    """Classifier and embedding on mixed images."""

    labels: Tensor  # [N] as given
    clean: Tensor  # [N] bool: agrees with its neighbours
    embeddings: Tensor  # [N, D] of the latest look, in half precision

    def __init__(
        self, net: nn.Module, labels: Tensor, classes: int, config: Config, rng: Generator
    ) -> None:
        size, count = config.embedding, len(labels)
        super().__init__(
            net,
            labels=labels.clone(),
            clean=torch.ones(count, dtype=torch.bool),
            embeddings=torch.zeros(count, size, dtype=torch.float16),
        )
        self.head = ProjectionHead(net, size, rng)
        self.memory = EmbeddingMemory(config.memory * classes, size)
        self.classes, self.config = classes, config

    def epoch(self, feed: Feed) -> Steps:
        """One pass; then, from `begin` on, a look at who agrees with its neighbours."""
        c, late = self.config, feed.epoch > self.config.begin
        for first, second, x, i in feed(views=0, strong=2, plain=True):
            mixes = [draw_mix(v, c.alpha, feed.rng, mostly_own=True) for v in (first, second)]
            mixed = [mix.blend(v) for mix, v in zip(mixes, (first, second), strict=True)]
            targets = self.find_targets(feed, x, i, late)
            logits, z = self.head(self.net, torch.cat(mixed))
            if not late:
                feed.record(i, logits[: len(i)].softmax(1))
            terms = {
                "classify": cross_entropy(logits, torch.cat([m.blend(targets) for m in mixes])),
                "contrast": interpolated(z, self.labels[i], mixes, c.temperature),
            }
            if feed.epoch >= c.remember_from and self.memory.is_full():
                known = self.memory.embeddings, self.memory.labels
                terms["memory"] = interpolated(z, self.labels[i], mixes, c.temperature, known)
            yield terms
            self.memory.add(z, self.labels[i].repeat(2))
        if feed.epoch >= c.begin:
            found = feed.embed_all(Embedder(self.net, self.head), c.embedding)
            self.embeddings.copy_(found)
            soft = share_soft_labels(found, self.labels, self.classes)
            self.clean.copy_(broadcast(choose_clean(soft, self.labels).byte()).bool())

    def find_targets(self, feed: Feed, x: Tensor, i: Tensor, late: bool) -> Tensor:
        """The labels of clean samples, and predictions on plain images for the others. [B, C]"""
        given = one_hot(self.labels[i], self.classes)
        if not late:
            return given
        with torch.no_grad():  # in training mode, as the authors do
            guess = self.classify(feed, x, i).float().softmax(1)
        return torch.where(self.clean[i, None], given, guess)


def interpolated(
    z: Tensor,
    labels: Tensor,
    mixes: list[Mix],
    temperature: float,
    known: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """ICL of two mixed views z [2B, D] of samples with these labels [B].

    With `known` embeddings [K, D] and their labels [K], rows are compared with these, too, and with
    the batch as if it lay among them: without gradient.
    """
    partners = torch.cat([mix.partner for mix in mixes])
    weights = torch.cat([torch.full_like(labels, m.weight, dtype=z.dtype) for m in mixes])
    columns, label = z, labels.repeat(2)
    shows = match_labels(partners, torch.arange(len(labels), device=z.device).repeat(2))
    if known is not None:
        columns, label = torch.cat([z.detach(), known[0]]), torch.cat([label, known[1]])
        shows = torch.cat([shows, shows.new_zeros(len(z), len(known[1]))], 1)
    itself = torch.eye(len(z), len(columns), dtype=torch.bool, device=z.device)
    own = match_labels(labels.repeat(2), label)
    others = match_labels(labels[partners], label) + shows
    both = torch.stack([own, others])
    near, near_partner = contrastive_losses(z, columns, both, temperature, itself).unbind()
    return (weights * near + (1 - weights) * near_partner).mean()


def choose_clean(soft: Tensor, labels: Tensor) -> Tensor:
    """Who agrees most with its soft label, as many in each class as agree in the median one. [N]"""
    agrees, apart = soft.argmax(1) == labels, measure_disagreement(soft, labels)
    counts = torch.stack([agrees[labels == c].sum() for c in range(soft.shape[1])])
    return keep_lowest(apart, labels, soft.shape[1], max(FEWEST, int(counts.median())))


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss. The embeddings are evidence too."""
    stage = Interpolate(run.network(), run.labels, run.classes, config, run.rng("head"))
    net = run.fit("train", stage, config.schedule).net
    run.keep(replace(run.observe("train", net), vectors=stage.embeddings.cpu()))
    return run.judge("train", net, config.threshold)
