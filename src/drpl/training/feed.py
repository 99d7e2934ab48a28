"""An epoch's access to the images: shuffled, augmented, in batches."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from drpl.data.images import Images, load_batches
from drpl.data.transforms import Transform
from drpl.distributed import agree_on_batchnorm, rank, world
from drpl.errors import TrainingError
from drpl.randomness import Key, rng
from drpl.training.evaluate import predict

SMALLEST = 6  # a last batch below this is skipped, as in the released code: too few for batch norm


class Feed:
    """Batches of one epoch. Its draws depend on (key, epoch, pass) and on nothing else."""

    def __init__(
        self,
        images: Images,
        augment: Transform,
        still: Transform,
        batch_size: int,
        epoch: int,
        key: Key,
        device: torch.device,
    ) -> None:
        self.images, self.augment, self.still = images, augment, still
        self.batch_size = batch_size
        self.epoch = epoch  # 1, 2, 3, ...
        self.key, self.device = (*key, epoch), device
        self.rng = rng(*self.key, "own", rank())  # this process's draws: mixup
        self.shared_rng = rng(*self.key, "shared")  # the same on every process: whom to relabel
        self.passes = 0
        self.served = 0  # images shown to a network so far, on all processes together

    def __call__(
        self, subset: Tensor | None = None, *, views: int = 1, batch_size: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Augmented images [B, ...] and their indices [B], in random order.

        With two views a batch is (x1, x2, i): the same images, augmented twice.
        """
        self.passes += 1
        key = (*self.key, self.passes)
        whole = torch.arange(len(self.images)) if subset is None else subset.cpu()
        order = whole[torch.randperm(len(whole), generator=rng(*key, "order"))]
        # A row for every sample, so a view does not depend on the batch it comes in.
        shape = (views, len(self.images), self.augment.num_uniforms)
        uniforms = torch.rand(shape, generator=rng(*key, "views"))
        batches = self._own(order, batch_size or self.batch_size)
        for index, pixels in load_batches(self.images, batches):
            pixels = pixels.to(self.device, non_blocking=True)
            self.served += len(index) * views * world()
            yield *(self.augment(pixels, u[index]) for u in uniforms), index.to(self.device)

    def forever(
        self, subset: Tensor, *, views: int = 1, batch_size: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Pass after pass, for the shorter of two sets that are walked side by side."""
        if len(subset) < world():
            raise TrainingError("there are no samples left to walk over")
        while True:
            yield from self(subset, views=views, batch_size=batch_size)

    def look(self, net: nn.Module, *, augmented: bool = False) -> Tensor:
        """Log-probabilities of every sample as `net` sees it now, in evaluation mode. [N, C]"""
        self.passes += 1
        self.served += len(self.images)
        agree_on_batchnorm(net)
        view = self.augment if augmented else self.still
        key = (*self.key, self.passes)
        return predict(net, self.images, view, self.device, key).to(self.device)

    def _own(self, order: Tensor, batch_size: int) -> list[Tensor]:
        """This process's part of each batch: the same number of rows for every process."""
        number, count = rank(), world()
        batches = list(order.split(batch_size))
        if len(batches) > 1 and len(batches[-1]) < SMALLEST * count:
            batches.pop()
        if count == 1:
            return batches
        return [batch[: len(batch) // count * count][number::count] for batch in batches]
