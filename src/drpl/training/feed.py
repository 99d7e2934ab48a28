"""An epoch's access to the images: shuffled, augmented, in batches."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from drpl.data.augment import Augment
from drpl.data.images import Images
from drpl.distributed import rank, world
from drpl.randomness import Key, rng

SMALLEST = 6  # a last batch below this is skipped, as in the released code: too few for batch norm


class Feed:
    """Batches of one epoch. Its draws depend on (key, epoch, pass) and on nothing else."""

    def __init__(
        self,
        images: Images,
        augment: Augment,
        batch_size: int,
        epoch: int,
        key: Key,
        device: torch.device,
    ) -> None:
        self.images, self.augment, self.batch_size = images, augment, batch_size
        self.epoch = epoch  # 1, 2, 3, ...
        self.key, self.device = (*key, epoch), device
        self.rng = rng(*self.key, "own", rank())  # this process's draws: mixup
        self.shared_rng = rng(*self.key, "shared")  # the same on every process: whom to relabel
        self.passes = 0

    def __call__(self, subset: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Augmented images [B, ...] and their indices [B], in random order."""
        self.passes += 1
        key = (*self.key, self.passes)
        whole = torch.arange(len(self.images)) if subset is None else subset.cpu()
        order = whole[torch.randperm(len(whole), generator=rng(*key, "order"))]
        # A row for every sample, so a view does not depend on the batch it comes in.
        uniforms = torch.rand(len(self.images), self.augment.draws, generator=rng(*key, "views"))
        for index, pixels in loaded(self.images, self._own(order)):
            x = self.augment(pixels.to(self.device, non_blocking=True), uniforms[index])
            yield x, index.to(self.device)

    def _own(self, order: Tensor) -> list[Tensor]:
        """This process's part of each batch: the same number of rows for every process."""
        batches = list(order.split(self.batch_size))
        if len(batches) > 1 and len(batches[-1]) < SMALLEST * world():
            batches.pop()
        return [batch[: len(batch) // world() * world()][rank() :: world()] for batch in batches]


def loaded(images: Images, batches: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch with its pixels, the next ones being read while this one is worked on."""
    if not images.ahead:
        for index in batches:
            yield index, images.load(index)
        return
    with ThreadPoolExecutor(1) as reader:
        waiting = deque(
            (index, reader.submit(images.load, index)) for index in batches[: images.ahead]
        )
        for k in range(len(batches)):
            index, pixels = waiting.popleft()
            ready = pixels.result()
            if k + images.ahead < len(batches):
                following = batches[k + images.ahead]
                waiting.append((following, reader.submit(images.load, following)))
            yield index, ready
