"""Several networks that answer together."""

from torch import Tensor, nn


class Ensemble(nn.Module):
    """Sums the logits of its members."""

    def __init__(self, *members: nn.Module) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of all members together. [B, C]"""
        total: Tensor = sum(member(x) for member in self.members)
        return total
