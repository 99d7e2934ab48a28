"""A method: label smoothing. A module with a `Config` and `train(run, config)` is all it takes."""

from collections.abc import Iterator

from torch import Tensor, nn

import drpl


class Config(drpl.Common):
    """Its numbers, with defaults: a package has no preset files."""

    schedule: drpl.Schedule = drpl.Schedule(epochs=20, lr=((1, 0.05),), batch_size=64)
    smoothing: float = 0.3


class Smoothed(drpl.Stage):
    """Believe each label a little less: t = (1 - s) y + s / C."""

    targets: Tensor  # [N, C]

    def __init__(self, net: nn.Module, targets: Tensor, smoothing: float) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("targets", (1 - smoothing) * targets + smoothing / targets.shape[1])

    def epoch(self, feed: drpl.Feed) -> Iterator[drpl.Terms]:
        """One pass; each yield is a gradient step."""
        for x, i in feed():
            logits = self.net(x)
            feed.record(i, logits.softmax(1))
            yield {"smoothed": drpl.cross_entropy(logits, self.targets[i])}


def train(run: drpl.Run, config: Config) -> drpl.Outcome:
    """Train, then judge every label by its loss."""
    stage = Smoothed(run.network(), drpl.one_hot(run.labels, run.classes), config.smoothing)
    net = run.fit("train", stage, config.schedule).net
    return run.judge("train", net, threshold=0.5)
