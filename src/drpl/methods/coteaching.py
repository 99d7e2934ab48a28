"""Co-teaching (Han et al., NeurIPS 2018): two networks choose for each other what to learn.

Of every batch each network shows its peer the share R of samples whose loss it finds smallest, and
the peer learns from these alone. Networks that began differently make different errors, so what
one has memorised the other filters out.

    R(t) = 1 - min(t / ramp, 1) forget_rate        t = 1, 2, ... the epoch

The forget rate is to be the share of wrong labels, which is not known: it is a setting, a guess.
"""

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from drpl.config.settings import EpochCount
from drpl.methods import cross_entropy as baseline
from drpl.networks.ensemble import Ensemble
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.stage import Stage, Steps


class Config(baseline.Config):
    """The baseline's schedule, and how much is forgotten."""

    forget_rate: float = Field(default=0.2, ge=0, lt=1)
    """The share of each batch that is not learnt from: what share of the labels may be wrong."""
    ramp: EpochCount = Field(default=10, gt=0)
    """Forgetting rises to its full rate over this many epochs."""

    def kept_share(self, epoch: int) -> float:
        """R(t): the share of each batch that is learnt from."""
        return 1 - min(epoch / self.ramp, 1) * self.forget_rate


class CoTeaching(Stage):
    """Two networks under one optimiser; they answer together."""

    net: Ensemble
    labels: Tensor  # [N]

    def __init__(self, net: Ensemble, labels: Tensor, config: Config) -> None:
        super().__init__(net, labels=labels.clone())
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """One pass."""
        share = self.config.kept_share(feed.epoch)
        for x, i in feed():
            logits = [self.classify(feed, x, i, net) for net in self.net.members]
            first, second = (
                functional.cross_entropy(one, self.labels[i], reduction="none") for one in logits
            )
            yield {
                "first": first[select_easiest(second, share)].mean(),
                "second": second[select_easiest(first, share)].mean(),
            }


def select_easiest(losses: Tensor, share: float) -> Tensor:
    """Which samples have the smallest losses: this share of them, but one at least."""
    return losses.detach().argsort(stable=True)[: max(1, round(share * len(losses)))]


def train(run: Run, config: Config) -> Outcome:
    """Train both; judge labels by the final loss of the two together."""
    stage = CoTeaching(Ensemble(run.network(), run.network()), run.labels, config)
    return baseline.fit_and_judge(run, stage, config)
