"""Bootstrapping (Reed et al., ICLR 2015 workshop): believe a label less than fully.

The rest of the belief goes to the network's own prediction, from the first epoch on.

    hard   L = -(1/B) sum_i sum_c (beta y_ic + (1 - beta) z_ic) log p_ic   z = one-hot argmax of p
    soft   L = -(1/B) sum_i sum_c (beta y_ic + (1 - beta) p_ic) log p_ic
"""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from drpl.config.settings import Settings
from drpl.methods import cross_entropy as baseline
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, entropy, one_hot
from drpl.training.stage import Steps

Kind = Literal["hard", "soft"]


class Belief(Settings):
    """How much the given label counts, by kind."""

    hard: float = Field(default=0.8, ge=0, le=1)
    soft: float = Field(default=0.95, ge=0, le=1)


class Config(baseline.Config):
    """The baseline's schedule, and what shares the target with the label."""

    kind: Kind = "hard"
    """hard: the most probable class; soft: the whole prediction."""
    beta: Belief


class Bootstrap(baseline.Classify):
    """Fit the label and one's own guess at once."""

    def __init__(self, net: nn.Module, targets: Tensor, kind: Kind, beta: float) -> None:
        super().__init__(net, targets)
        self.kind, self.beta = kind, beta

    def epoch(self, feed: Feed) -> Steps:
        """One pass."""
        for x, i in feed():
            logits = self.classify(feed, x, i)
            own = hard(logits) if self.kind == "hard" else soft(logits)
            yield {
                "classify": self.beta * cross_entropy(logits, self.targets[i]),
                "own": (1 - self.beta) * own,
            }


def hard(logits: Tensor) -> Tensor:
    """Cross-entropy against the most probable class."""
    return -logits.log_softmax(1).amax(1).mean()


def soft(logits: Tensor) -> Tensor:
    """Cross-entropy against the prediction itself: its entropy.

    The target must move with the prediction, as the paper has it. Held constant it would have no
    gradient of its own, p - p, and all that remained would be cross-entropy scaled by beta.
    """
    return entropy(logits.softmax(1))


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss."""
    beta = config.beta.hard if config.kind == "hard" else config.beta.soft
    stage = Bootstrap(run.network(), one_hot(run.labels, run.classes), config.kind, beta)
    return baseline.fit_and_judge(run, stage, config)
