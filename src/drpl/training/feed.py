"""An epoch's access to the images: shuffled, augmented, in batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from drpl.data.images import Images
from drpl.data.prefetch import load_batches
from drpl.data.transforms import Transform
from drpl.distributed import agree_on_batchnorm, all_reduce_sum, rank, world
from drpl.errors import TrainingError
from drpl.randomness import Key, rng
from drpl.training.evaluate import embed, predict
from drpl.training.tables import make_table

SMALLEST = 6  # a last batch below this is skipped, as in the released code: too few for batch norm


class EpochPredictions(NamedTuple):
    """What the training forwards of one epoch predicted."""

    probs: Tensor  # [N, C] mean of a sample's predictions; C is 0 if nothing was recorded
    visited: Tensor  # [N] bool


@dataclass(eq=False)
class Feed:
    """Batches of one epoch. Its draws depend on (key, epoch, pass) and on nothing else."""

    images: Images
    train_transform: Transform
    eval_transform: Transform
    batch_size: int
    epoch: int  # 1, 2, 3, ...
    key: Key
    device: torch.device
    strong_transform: Transform | None = None

    def __post_init__(self) -> None:
        self.key = (*self.key, self.epoch)
        self.rng = rng(*self.key, "own", rank())  # this process's draws: mixup
        self.shared_rng = rng(*self.key, "shared")  # the same on every process: whom to relabel
        self.passes = 0
        self.served = 0  # images shown to a network so far, on all processes together
        self.progress = 0.0  # share of the latest pass's batches that were given out
        self._sums: Tensor | None = None  # [N, C] of recorded predictions
        self._counts = torch.zeros(len(self.images), device=self.device)

    def __call__(
        self,
        subset: Tensor | None = None,
        *,
        views: int = 1,
        strong: int = 0,
        plain: bool = False,
        batch_size: int | None = None,
    ) -> Iterator[tuple[Tensor, ...]]:
        """Augmented images [B, ...] and their indices [B], in random order.

        With two views a batch is (x1, x2, i): the same images, augmented twice. Strongly augmented
        ones come after these, then the image as it is: `views=2, strong=1, plain=True` gives
        (x1, x2, s1, x, i). What else is asked for changes no view.
        """
        size = batch_size or self.batch_size
        for given_out, batch in self._walk(subset, views, strong, plain, size):
            self.progress = given_out
            yield batch

    def _walk(
        self, subset: Tensor | None, views: int, strong: int, plain: bool, batch_size: int
    ) -> Iterator[tuple[float, tuple[Tensor, ...]]]:
        """The batches of a pass, each with the share of them that are given out by then."""
        self.passes += 1
        key = (*self.key, self.passes)
        whole = torch.arange(len(self.images)) if subset is None else subset.cpu()
        order = whole[torch.randperm(len(whole), generator=rng(*key, "order"))]
        # A row for every sample, so a view does not depend on the batch it comes in.
        shown = [*self._draw(self.train_transform, views, (*key, "views"))]
        if strong:
            shown += self._draw(self._find_strong(), strong, (*key, "strong"))
        if plain:
            shown += self._draw(self.eval_transform, 1, (*key, "plain"))
        batches = self._own_parts(order, batch_size)
        for number, (index, pixels) in enumerate(load_batches(self.images, batches), 1):
            pixels = pixels.to(self.device, non_blocking=True)
            self.served += len(index) * len(shown) * world()
            with torch.autocast(self.device.type, enabled=False):  # else some colours are bfloat16
                seen = [transform(pixels, u[index]) for transform, u in shown]
            yield number / len(batches), (*seen, index.to(self.device))

    def cycle(
        self, subset: Tensor, *, views: int = 1, strong: int = 0, batch_size: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Pass after pass, for the shorter of two sets that are walked side by side."""
        if len(subset) < world():
            raise TrainingError("there are no samples left to walk over")
        while True:  # the other set's pass tells how far the epoch is
            for _, batch in self._walk(subset, views, strong, False, batch_size or self.batch_size):
                yield batch

    def predict_all(self, net: nn.Module, *, augmented: bool = False) -> Tensor:
        """Log-probabilities of every sample as `net` sees it now, in evaluation mode. [N, C]"""
        self.passes += 1
        self.served += len(self.images)
        agree_on_batchnorm(net)
        transform = self.train_transform if augmented else self.eval_transform
        key = (*self.key, self.passes)
        return predict(net, self.images, transform, self.device, key).to(self.device)

    def embed_all(self, net: nn.Module, size: int) -> Tensor:
        """What `net` makes of every sample as it is now, in evaluation mode. [N, size]"""
        self.passes += 1
        self.served += len(self.images)
        agree_on_batchnorm(net)
        key = (*self.key, self.passes)
        return embed(net, self.images, self.eval_transform, self.device, key).to(self.device)

    def record(self, i: Tensor, probs: Tensor) -> None:
        """Note what a training forward predicted for the samples `i`: evidence at no cost."""
        probs = probs.detach().float()
        if self._sums is None:
            self._sums = make_table(len(self.images), probs.shape[1], device=self.device)
        self._sums.index_add_(0, i, probs)
        self._counts.index_add_(0, i, torch.ones_like(i, dtype=torch.float32))

    @cached_property
    def predictions(self) -> EpochPredictions:
        """What was recorded, on all processes; asked for when the epoch's batches are done."""
        counts = all_reduce_sum(self._counts)
        sums = torch.zeros(len(counts), 0) if self._sums is None else all_reduce_sum(self._sums)
        sums /= counts.clamp(min=1)[:, None].to(sums)  # in place: it may be a large table
        return EpochPredictions(sums, counts > 0)

    def _draw(
        self, transform: Transform, views: int, key: Key
    ) -> Iterator[tuple[Transform, Tensor]]:
        """The uniforms of each view [N, num_uniforms], beside the transform that they are for."""
        shape = (views, len(self.images), transform.num_uniforms)
        for u in torch.rand(shape, generator=rng(*key)):
            yield transform, u

    def _find_strong(self) -> Transform:
        if self.strong_transform is None:
            raise TrainingError("this feed was made without a transform for strong views")
        return self.strong_transform

    def _own_parts(self, order: Tensor, batch_size: int) -> list[Tensor]:
        """This process's part of each batch: the same number of rows for every process."""
        count, batches = world(), list(order.split(batch_size))
        if len(batches) > 1 and len(batches[-1]) < SMALLEST * count:
            batches.pop()
        return [batch[: len(batch) // count * count][rank() :: count] for batch in batches]
