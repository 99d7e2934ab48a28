"""A network's view of every sample."""

import torch
from torch import Tensor, nn

from drpl.data.images import Images, load_batches
from drpl.data.transforms import Transform
from drpl.distributed import all_reduce_sum, rank, world
from drpl.randomness import Key, rng
from drpl.training.tables import make_table

BATCH = 256


@torch.no_grad()
def predict(
    net: nn.Module, images: Images, transform: Transform, device: torch.device, key: Key = ()
) -> Tensor:
    """Log-probabilities [N, C] in evaluation mode, on one view of each image."""
    was_training = net.training
    net.eval()
    count = len(images)
    uniforms = torch.rand(count, transform.num_uniforms, generator=rng(*key, "views"))
    table: Tensor | None = None
    batches = torch.arange(count)[rank() :: world()].split(BATCH)
    for index, pixels in load_batches(images, list(batches)):
        logits = net(transform(pixels.to(device), uniforms[index])).float()
        if table is None:
            table = make_table(count, logits.shape[1], device=device)
        table[index.to(device)] = logits.log_softmax(1)
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
