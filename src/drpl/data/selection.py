"""Parts of image sources, and two of them as one."""

import torch
from torch import Tensor

from drpl.data.images import Images, TensorImages
from drpl.errors import DataError


class Chosen:
    """Some images of another source, in an order of their own."""

    def __init__(self, images: Images, index: Tensor) -> None:
        self.images, self.index, self.ahead = images, index, images.ahead

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the source."""
        return self.images.shape

    def __len__(self) -> int:
        return len(self.index)

    def load(self, index: Tensor) -> Tensor:
        """What the source has there."""
        return self.images.load(self.index[index.cpu()])


class Joined:
    """Two sources of images of one shape, one after the other."""

    def __init__(self, first: Images, second: Images) -> None:
        if first.shape != second.shape:
            raise DataError(f"images of shapes {first.shape} and {second.shape} cannot be joined")
        self.first, self.second = first, second
        self.ahead = max(first.ahead, second.ahead)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of both."""
        return self.first.shape

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def load(self, index: Tensor) -> Tensor:
        """Each from where it is."""
        index = index.cpu()
        late = index >= len(self.first)
        order = torch.cat([(~late).nonzero()[:, 0], late.nonzero()[:, 0]])
        parts = ((self.first, index[~late]), (self.second, index[late] - len(self.first)))
        loaded = [images.load(part) for images, part in parts if len(part)]
        return torch.cat(loaded)[order.argsort()]


def chosen(images: Images, index: Tensor) -> Images:
    """The images at `index`; those in memory stay there as one tensor."""
    if isinstance(images, TensorImages):
        return TensorImages(images.load(index))
    return Chosen(images, index)
