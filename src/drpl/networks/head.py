"""A second output of any classifier: unit vectors for contrastive learning, or other logits."""

from itertools import pairwise

from torch import Generator, Tensor, nn
from torch.nn.functional import normalize

from drpl.errors import ConfigError


class ProjectionHead(nn.Module):
    """From what a network's classifier sees to a unit vector; linear, or with hidden layers.

        self.head = ProjectionHead(net, 128, run.rng("head"))
        logits, embedding = self.head(self.net, x)     # one forward for both

    It belongs to the stage, not to the network, which predicts without it.
    """

    def __init__(
        self, net: nn.Module, size: int, rng: Generator, hidden: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.classifier = find_classifier(net)
        features = _get_linear(net, self.classifier).in_features
        layers: list[nn.Module] = []
        for before, after in pairwise((features, *hidden)):
            layers += [_make_linear(before, after, rng), nn.BatchNorm1d(after), nn.ReLU()]
        last = hidden[-1] if hidden else features
        self.layers = nn.Sequential(*layers, _make_linear(last, size, rng))

    def forward(self, net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, C] and embeddings of length 1. [B, size]"""
        seen: list[Tensor] = []
        hook = _get_linear(net, self.classifier).register_forward_pre_hook(
            lambda _, inputs: seen.append(inputs[0])
        )
        try:
            logits: Tensor = net(x)
        finally:
            hook.remove()
        features = seen[-1].to(next(self.parameters()).dtype)
        return logits, self.finish(self.layers(features).float())

    def finish(self, projected: Tensor) -> Tensor:
        """Vectors of length 1."""
        return normalize(projected, dim=1)


class SecondClassifier(ProjectionHead):
    """Other logits from the same features: what it learns, the first does not unlearn."""

    def finish(self, projected: Tensor) -> Tensor:
        """Logits as they are."""
        return projected


class Embedder(nn.Module):
    """A network whose answer is its head's: for passes over all samples."""

    def __init__(self, net: nn.Module, head: ProjectionHead) -> None:
        super().__init__()
        self.net, self.head = net, head

    def forward(self, x: Tensor) -> Tensor:
        """[B, ...] -> [B, size]."""
        answer: Tensor = self.head(self.net, x)[1]
        return answer


def find_classifier(net: nn.Module) -> str:
    """The name of a network's last linear layer, which makes logits of features."""
    names = [name for name, module in net.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise ConfigError(
            f"a network of the kind {type(net).__name__} has no linear layer at its end, whose "
            "input this method embeds; take another of `drpl list networks`"
        )
    return str(names[-1])


def _get_linear(net: nn.Module, name: str) -> nn.Linear:
    found: nn.Linear = net.get_submodule(name)  # type: ignore[assignment]
    return found


def _make_linear(before: int, after: int, rng: Generator) -> nn.Linear:
    """A layer as torch would initialise it, but by draws of the run's own."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, before, after)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(before**-0.5), before**-0.5, generator=rng)
    return layer
