"""Spectral noise clustering from contrastive features (SNCF, Albert et al., ECCV 2022).

1. Features without labels: two strong views of an image, one of them mixed with another image, are
   to be near each other, f embeddings (N-pairs with i-Mix)

       L = mean_i CE(softmax_j(f_i . f'_j / T), l i + (1 - l) s(i))

2. Clusters of these in each class, by `detection/clusters.py`: clean, of another class, outside.
3. A new network: until epoch `begin` mixup on clean samples, then batches with as many of each kind

       L = CE(mixed clean and other) + near(whole batch, S mixed by l, s)

   Samples of other classes are taught their sharpened guess; S_ij = 1 where the given, the guessed,
   or, for samples outside, the cluster's class is the same.
"""

from dataclasses import replace

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from drpl.config.settings import EpochCount, StrongView
from drpl.detection.clusters import CLEAN, OTHER, OUTSIDE, Clustering
from drpl.detection.split import FEWEST
from drpl.distributed import broadcast, world
from drpl.methods import cross_entropy as baseline
from drpl.networks.head import Embedder, ProjectionHead
from drpl.runs.run import Outcome, Run
from drpl.training.contrastive import contrastive_losses, match_labels
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, draw_mix, mixup, one_hot, sharpen
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Steps


class Config(baseline.Config):
    """Schedules of the features and of the classifier, and how samples are clustered."""

    features_schedule: Schedule
    begin: EpochCount = Field(gt=0)
    """Until this epoch the classifier learns from clean samples only."""
    embedding: int = Field(default=128, gt=1)
    """Numbers of the embeddings."""
    hidden: tuple[int, ...] = (2048, 2048)
    """Layers between features and embedding, where no label is used."""
    temperature: float = Field(default=0.2, gt=0)
    """T of the contrastive losses."""
    neighbours: int = Field(default=50, gt=1)
    """Of each sample in the graph."""
    sizes: tuple[int, ...] = Field(default=(75, 50, 25), min_length=1)
    """Samples around one that make a cluster, tried in turn; of 500 in a class."""
    smallest: int = Field(default=75, gt=1)
    """Samples of a cluster, at least; of 500 in a class."""
    cautious: bool = False
    """Whether a class whose clusters are alike, or mostly outside, is called clean."""
    strong: StrongView = StrongView()


class Contrast(Stage):
    """Features without labels. The network's classifier stays as it began."""

    embeddings: Tensor  # [N, D] in half precision, after the last epoch

    def __init__(self, net: nn.Module, samples: int, config: Config, rng: Generator) -> None:
        table = torch.zeros(samples, config.embedding, dtype=torch.float16)
        super().__init__(net, embeddings=table)
        self.head = ProjectionHead(net, config.embedding, rng, config.hidden)
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """One pass; after the last one every sample is embedded."""
        for first, second, i in feed(views=0, strong=2):
            mix = draw_mix(first, 1.0, feed.rng, mostly_own=True)
            logits, f = self.head(self.net, mix.blend(first))
            feed.record(i, logits.softmax(1))
            wanted = mix.blend(torch.eye(len(i), device=i.device))
            near = self.head(self.net, second)[1]
            losses = contrastive_losses(f, near, wanted, self.config.temperature)
            yield {"contrast": losses.mean()}
        if feed.epoch == self.config.features_schedule.epochs:
            embedder = Embedder(self.net, self.head)
            self.embeddings.copy_(feed.embed_all(embedder, self.config.embedding))


class Guided(Stage):
    """A classifier whose embedding is guided by labels, guesses and clusters."""

    labels: Tensor  # [N] as given
    kinds: Tensor  # [N] clean, of another class, outside
    groups: Tensor  # [N] of samples outside: a class of their own each, or of their cluster

    def __init__(self, run: Run, config: Config, kinds: Tensor, groups: Tensor) -> None:
        net = run.network()
        super().__init__(net, labels=run.labels.clone(), kinds=kinds, groups=groups)
        self.head = ProjectionHead(net, config.embedding, run.rng("guided"))
        self.classes, self.config = run.classes, config

    def epoch(self, feed: Feed) -> Steps:
        """One pass over clean samples, the others beside them."""
        sets = [(self.kinds == kind).nonzero().flatten() for kind in (CLEAN, OTHER, OUTSIDE)]
        if feed.epoch <= self.config.begin:
            for x, i in feed(sets[0]):
                t = one_hot(self.labels[i], self.classes)
                x, t, _ = mixup(x, t, 1.0, feed.rng, mostly_own=True)
                yield {"classify": cross_entropy(self.classify(feed, x, i), t)}
            return
        few, size = FEWEST * world(), max(FEWEST * world(), feed.batch_size // 3)
        beside = [s for s in sets[1:] if len(s) >= few]
        cycles = [feed.cycle(s, views=2, strong=2, batch_size=size) for s in beside]
        for parts in zip(feed(sets[0], views=2, strong=2, batch_size=size), *cycles, strict=False):
            yield self.compare(feed, *(torch.cat(views) for views in zip(*parts, strict=True)))

    def compare(
        self, feed: Feed, x: Tensor, other: Tensor, first: Tensor, second: Tensor, i: Tensor
    ) -> dict[str, Tensor]:
        """The loss of a batch of all kinds: two weak views, two strong ones."""
        c, kinds = self.config, self.kinds[i]
        with torch.no_grad():  # in training mode
            p = (self.net(x).float().softmax(1) + self.net(other).float().softmax(1)) / 2
        feed.record(i, p)
        guess = sharpen(p, 0.5)
        given = one_hot(self.labels[i], self.classes)
        targets = torch.where(kinds[:, None] == CLEAN, given, guess)
        clean, inside = kinds == CLEAN, kinds != OUTSIDE
        shown = torch.cat([x[inside], other[clean]])
        taught = torch.cat([targets[inside], targets[clean]])
        shown, taught, _ = mixup(shown, taught, 1.0, feed.rng, mostly_own=True)
        group = torch.where(inside, targets.argmax(1), self.classes + self.groups[i])
        mix = draw_mix(first, 1.0, feed.rng, mostly_own=True)
        f, near = (self.head(self.net, v)[1] for v in (mix.blend(first), second))
        wanted = mix.blend(match_labels(group, group))
        return {
            "classify": cross_entropy(self.net(shown), taught),
            "contrast": contrastive_losses(f, near, wanted, c.temperature).mean(),
        }


def train(run: Run, config: Config) -> Outcome:
    """Features, clusters, classifier; judge labels by its final loss."""
    first = Contrast(run.network(), len(run.labels), config, run.rng("head"))
    vectors = run.fit("features", first, config.features_schedule).embeddings
    how = Clustering(config.neighbours, config.sizes, config.smallest, config.cautious)
    # The first process decides: over sets of unequal size the others would wait for ever.
    found = (broadcast(t.to(vectors.device)).cpu() for t in how.divide(vectors, run.labels))
    stage = run.fit("train", Guided(run, config, *found), config.schedule)
    run.keep(replace(run.observe("train", stage.net), vectors=vectors.cpu()))
    return run.judge("train", stage.net, config.threshold)
