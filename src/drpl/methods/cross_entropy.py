"""Cross-entropy: the baseline that believes every label.

L = -(1/B) sum_i sum_c t_ic log p_ic
"""

from typing import Literal

from torch import Tensor, nn

from drpl.config.settings import Common
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, one_hot
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage, Steps

EVIDENCE = ("train",)  # the stages whose losses it judges labels by


class Config(Common):
    """Nothing but a schedule."""

    schedule: Schedule
    threshold: float = 0.5
    """Labels are called wrong where the mixture of the final losses gives noise more than this."""


class Continued(Config):
    """A method that goes on, with an optimiser of its own, from a network trained like this."""

    pretrain_schedule: Schedule
    start: Literal["best", "last"]
    """From which epoch to go on. best, the paper's choice, is picked by TEST accuracy."""


class Classify(Stage):
    """Fit fixed targets, hard or soft."""

    targets: Tensor  # [N, C]

    def __init__(self, net: nn.Module, targets: Tensor) -> None:
        super().__init__(net, targets=targets)

    def epoch(self, feed: Feed) -> Steps:
        """One pass."""
        for x, i in feed():
            yield {"classify": cross_entropy(self.classify(feed, x, i), self.targets[i])}


def pretrain(run: Run, config: Continued) -> nn.Module:
    """A network trained on the given labels, to go on from."""
    stage = Classify(run.network(), one_hot(run.labels, run.classes))
    best = config.start == "best"
    return run.fit("pretrain", stage, config.pretrain_schedule, best=best).net


def fit_and_judge(run: Run, stage: Stage, config: Config) -> Outcome:
    """Train a method's only, or last, stage; judge labels by the final loss."""
    net = run.fit("train", stage, config.schedule).net
    return run.judge("train", net, config.threshold)


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss."""
    stage = Classify(run.network(), one_hot(run.labels, run.classes))
    return fit_and_judge(run, stage, config)
