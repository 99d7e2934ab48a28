"""The images of an encoded data set by one number: those for training, then those for testing."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.images import LUMA, Images, concat, redecode
from drpl.data.pixel_store import CACHE
from drpl.data.prefetch import load_batches
from drpl.encoders.encoder import Encoder, load_encoder
from drpl.encoders.ray_engine import encode_views
from drpl.errors import DrplError

PART = 1024  # images that are read together
VARIED = 0.01  # of the mean, what vectors must differ by to be centred


@dataclass(frozen=True)
class EncodedImages:
    """Vectors, labels and pictures of both parts of a data set."""

    data: DatasetSplits

    @cached_property
    def parts(self) -> dict[str, Dataset]:
        """The parts by name, those that there are."""
        every = {"train": self.data.train, "test": self.data.test}
        return {name: part for name, part in every.items() if part}

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    @cached_property
    def labels(self) -> Tensor:
        """The given labels. [N]"""
        return torch.cat([part.labels for part in self.parts.values()])

    @cached_property
    def is_test(self) -> Tensor:
        """Which images are of the test part. [N] bool"""
        return torch.arange(len(self)) >= len(self.data.train)

    @cached_property
    def vectors(self) -> Tensor:
        """Of unit length, around the mean of the training images. float16 [N, D]"""
        parts = [
            self.centre(vectors)
            for part in self.parts.values()
            for _, vectors in load_batches(part.images, list(torch.arange(len(part)).split(PART)))
        ]
        return torch.cat(parts)

    @cached_property
    def pictures(self) -> Images | None:
        """What the vectors were made of; None where that is not known."""
        first, *rest = [part.pictures for part in self.parts.values()]
        if first is None or any(more is None or len(more.shape) != 3 for more in rest):
            return None
        return concat(first, rest[0]) if rest and rest[0] else first

    def centre(self, vectors: Tensor) -> Tensor:
        """Vectors [B, D] of an encoder like those of the data. float16"""
        return normalize(vectors.float() - self._middle).half()

    @cached_property
    def _middle(self) -> Tensor:
        """The mean of the vectors; zero if all are the same, for nothing would be left. [D]"""
        mean, std = torch.tensor(self.data.mean), torch.tensor(self.data.std)
        varied = std.square().mean().sqrt() > VARIED * mean.square().mean().sqrt()
        return mean if varied else torch.zeros_like(mean)

    def load_squares(self, index: Tensor, side: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of the index, and their pictures as uint8 [B, 3, side, side]."""
        if self.pictures is not None:
            yield from load_batches(redecode(self.pictures, side), list(index.split(PART)))

    @cached_property
    def encoder(self) -> Encoder | None:
        """What made the vectors; None if it is not known or not here."""
        made, origin = self.data.encoding, self.data.origin
        if made is None:
            return None
        cache = (origin and origin.read_options.cache) or CACHE
        try:
            found = load_encoder(made.encoder, size=made.size, cache=cache / "features")
        except DrplError:
            return None
        return found if found.weights == made.weights else None

    def encode(self, encoder: Encoder, squares: Tensor) -> Tensor:
        """Pictures uint8 [B, 3, S, S] as vectors like those of the data. float16 [B, D]"""
        mirrored = self.data.encoding is not None and self.data.encoding.mirrored
        views = encode_views(encoder, squares, [False, True] if mirrored else [False])
        return self.centre(torch.stack(views).mean(0))

    def name(self, i: int) -> tuple[str, int, str, str]:
        """Part, number in it, path and label of an image."""
        part = "test" if self.is_test[i] else "train"
        dataset, number = self.parts[part], i - len(self.data.train) * int(self.is_test[i])
        path = dataset.paths[number] if dataset.paths else ""
        return part, number, path, dataset.classes[int(dataset.labels[number])]


def to_grey(squares: Tensor) -> Tensor:
    """Pictures uint8 [B, 3, S, S] without their colours. uint8 [B, S, S]"""
    return (squares * torch.tensor(LUMA).view(3, 1, 1)).sum(1).round().to(torch.uint8)
