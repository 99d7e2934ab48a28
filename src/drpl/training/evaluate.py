"""A network's view of every sample."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from drpl.data.images import Images
from drpl.data.prefetch import load_batches
from drpl.data.transforms import Transform
from drpl.distributed import all_reduce_sum, rank, world
from drpl.randomness import Key, rng
from drpl.training.tables import make_table

BATCH = 256


def predict(
    net: nn.Module, images: Images, transform: Transform, device: torch.device, key: Key = ()
) -> Tensor:
    """Log-probabilities [N, C] in evaluation mode, on one view of each image."""
    return embed(net, images, transform, device, key, then=lambda logits: logits.log_softmax(1))


@torch.no_grad()
def embed(
    net: nn.Module,
    images: Images,
    transform: Transform,
    device: torch.device,
    key: Key = (),
    *,
    then: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """What `net` makes of one view of each image, in evaluation mode. [N, D]"""
    was_training = net.training
    net.eval()
    count = len(images)
    uniforms = torch.rand(count, transform.num_uniforms, generator=rng(*key, "views"))
    table: Tensor | None = None
    batches = torch.arange(count)[rank() :: world()].split(BATCH)
    for index, pixels in load_batches(images, list(batches)):
        made = net(transform(pixels.to(device), uniforms[index])).float()
        if table is None:
            table = make_table(count, made.shape[1], device=device)
        table[index.to(device)] = then(made) if then else made
    net.train(was_training)
    assert table is not None  # noqa: S101  a data set has at least as many images as processes
    return all_reduce_sum(table).cpu()


def label_losses(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each sample against its given label. [N]"""
    return -log_probs.gather(1, labels[:, None]).squeeze(1)


def label_margins(log_probs: Tensor, labels: Tensor) -> Tensor:
    """How far the given label's logit lies above the highest other one. [N]"""
    others = log_probs.scatter(1, labels[:, None], -torch.inf).amax(1)
    return log_probs.gather(1, labels[:, None]).squeeze(1) - others
