"""A method of one's own, used like those of the library: label smoothing.

    python examples/own_method.py

To bring it into the library: this file becomes `src/drpl/methods/smoothing.py`, its numbers
`src/drpl/config/presets/smoothing.toml`, and `METHODS` in `src/drpl/registry.py` gets one line.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor, nn

import drpl


class Config(drpl.Common):
    """The paper's table of hyper-parameters would stand here."""

    schedule: drpl.Schedule
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
            feed.record(i, logits.softmax(1))  # evidence for detectors, at no cost
            yield {"smoothed": drpl.cross_entropy(logits, self.targets[i])}


def train(run: drpl.Run, config: Config) -> drpl.Outcome:
    """Train, then judge every label by its loss."""
    stage = Smoothed(run.network(), drpl.one_hot(run.labels, run.classes), config.smoothing)
    net = run.fit("train", stage, config.schedule).net
    return run.judge("train", net, threshold=0.5)


def main(out: Path, epochs: int) -> drpl.Result:
    """On digits of which 40 % carry a wrong label."""
    schedule = drpl.Schedule(epochs=epochs, lr=((1, 0.05),), batch_size=64)
    config = Config(schedule=schedule, width=8, flip=False)
    return drpl.train("digits", method=train, config=config, noise="uniform:0.4", out=out)


if __name__ == "__main__":
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(main(Path("runs/own-method"), epochs).summary)
