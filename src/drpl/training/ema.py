"""A running mean of a network's weights: a teacher that changes slowly.

A stage that keeps one as a submodule has it in its checkpoint. The optimiser leaves it alone, as
its weights never have a gradient.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn


class WeightAverage(nn.Module):
    """A copy of a network; after every step `follow` draws its weights to the network's.

        teacher = WeightAverage(net)
        guess = teacher(x)                  # without gradient
        yield {"loss": ...}                 # the step is taken
        teacher.follow(net, decay=0.997)

    In training mode it normalises by the batch, as its network does, and collects the statistics
    of batch norm by its own forwards. One that is only asked in evaluation mode wants those of the
    network: `follow(..., statistics=True)`.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = deepcopy(net).requires_grad_(False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """What the averaged weights predict: the network's kind of answer, without gradient."""
        answer: Tensor = self.net(x)
        return answer

    @torch.no_grad()
    def follow(self, net: nn.Module, decay: float, *, statistics: bool = False) -> None:
        """Keep `decay` of each weight and take the rest from `net`; copy its `statistics` too."""
        for own, new in zip(self.net.parameters(), net.parameters(), strict=True):
            own.lerp_(new, 1 - decay)
        if statistics:
            for kept, now in zip(self.net.buffers(), net.buffers(), strict=True):
                kept.copy_(now)
