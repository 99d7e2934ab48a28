"""Mixup (Zhang et al., ICLR 2018): train between the samples, so that single ones weigh less.

x^ = l x + (1 - l) x',   L = l CE(y) + (1 - l) CE(y'),   l ~ Beta(alpha, alpha), one a batch
"""

from pydantic import Field
from torch import Tensor, nn

from drpl.methods import cross_entropy as baseline
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, mixup, one_hot
from drpl.training.stage import Steps


class Config(baseline.Config):
    """The baseline's schedule, and how much is mixed."""

    alpha: float = Field(default=1.0, gt=0)


class Mixup(baseline.Classify):
    """Fit mixed targets on mixed images."""

    def __init__(self, net: nn.Module, targets: Tensor, alpha: float) -> None:
        super().__init__(net, targets)
        self.alpha = alpha

    def epoch(self, feed: Feed) -> Steps:
        """One pass."""
        for x, i in feed():
            x, t, main = mixup(x, self.targets[i], self.alpha, feed.rng)
            yield {"mixup": cross_entropy(self.classify(feed, x, i[main]), t)}


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss on images that are not mixed."""
    stage = Mixup(run.network(), one_hot(run.labels, run.classes), config.alpha)
    return baseline.fit_and_judge(run, stage, config)
