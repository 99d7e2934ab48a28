"""Sparse over-parameterisation (SOP, Liu et al., ICML 2022): a term for what is wrong in a label.

To the prediction of each sample is added s = u^2 y - v^2 (1 - y), which only its own label teaches.
u and v begin next to zero and learn by plain SGD, which grows them where label and network disagree
for long and leaves them near zero elsewhere: s is sparse, as wrong labels are, and takes them over.

    U = min(u^2 y, 1)     V = min(v^2 (1 - y), 1)     h = one-hot argmax of p, a constant
    a = p + U - V, not below 1e-4, each row divided by its sum     V a constant here
    L = -(1/B) sum_i log a_i[y]  +  (1/B) sum_i |h_i + U_i - V_i - y_i|^2

The first term teaches the network and u, the second u and v.
"""

from pydantic import Field
from torch import Generator, Tensor, nn

from drpl.distributed import all_reduce_sum
from drpl.methods import cross_entropy as baseline
from drpl.runs.run import Outcome, Run
from drpl.training.feed import Feed
from drpl.training.losses import one_hot
from drpl.training.stage import Stage, Steps
from drpl.training.tables import make_table, split_rows

MARGIN = 1e-4  # no corrected probability is below this
START = 1e-8  # deviation of the first u and v; at zero they would have no gradient, for ever


class Config(baseline.Config):
    """The baseline's schedule, and how fast the correction of labels is learnt.

    Rates are large, as the gradient is that of the batch's mean: they go with the batch size. u and
    v grow by a factor in each epoch, so fewer epochs want larger rates, too.
    """

    u_rate: float = Field(gt=0)
    """Learning rate of u, which explains that a label was given."""
    v_rate: float = Field(gt=0)
    """Learning rate of v, which explains that another one was not."""


class Overparameterised(Stage):
    """Network and corrections learn together, each by its own rate."""

    labels: Tensor  # [N] as given
    u: Tensor  # [N, 1]
    v: Tensor  # [N, C]

    def __init__(
        self, net: nn.Module, labels: Tensor, classes: int, config: Config, rng: Generator
    ) -> None:
        super().__init__(
            net,
            labels=labels.clone(),
            u=make_table(len(labels), 1).normal_(0, START, generator=rng),
            v=make_table(len(labels), classes).normal_(0, START, generator=rng),
        )
        self.config = config

    def epoch(self, feed: Feed) -> Steps:
        """One pass; each sample's u and v move once."""
        c, device = self.config, self.v.device
        moves_u, moves_v = (make_table(*t.shape, device=device) for t in (self.u, self.v))
        for x, i in feed():
            logits, y = self.classify(feed, x, i), one_hot(self.labels[i], self.v.shape[1])
            u, v = self.u[i].requires_grad_(), self.v[i].requires_grad_()
            yield {
                "classify": corrected_cross_entropy(logits, y, u, v),
                "explain": explanation_loss(logits, y, u, v),
            }
            # The loop has divided the loss by the processes: this is the whole batch's gradient.
            moves_u[i] = -c.u_rate * u.grad  # type: ignore[operator]
            moves_v[i] = -c.v_rate * v.grad  # type: ignore[operator]
        for table, moves in ((self.u, moves_u), (self.v, moves_v)):
            moves = all_reduce_sum(moves)  # of all processes; who was in no batch stays
            for rows in split_rows(len(table), table, moves):
                table[rows] += moves[rows]


def split_correction(y: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """U and V: what is added at the given label, and taken away at the others. [B, C] each"""
    return (u**2 * y).clamp(max=1), (v**2 * (1 - y)).clamp(max=1)


def corrected_cross_entropy(logits: Tensor, y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """-(1/B) sum_i log a_i[y], which does not teach v."""
    added, taken = split_correction(y, u, v)
    a = (logits.softmax(1) + added - taken.detach()).clamp(min=MARGIN)
    a = (a / a.sum(1, keepdim=True)).clamp(min=MARGIN)
    return -(y * a.log()).sum(1).mean()


def explanation_loss(logits: Tensor, y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """(1/B) sum_i |h_i + U_i - V_i - y_i|^2, which does not teach the network."""
    added, taken = split_correction(y, u, v)
    h = one_hot(logits.argmax(1), y.shape[1])
    return (h + added - taken - y).square().sum(1).mean()


def train(run: Run, config: Config) -> Outcome:
    """Train; judge labels by the final loss of the network, without the correction."""
    net, rng = run.network(), run.rng("corrections")
    stage = Overparameterised(net, run.labels, run.classes, config, rng)
    return baseline.fit_and_judge(run, stage, config)
