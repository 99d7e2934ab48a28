"""One lazy composite for selections, concatenations, replacements and other shapes."""

from pathlib import Path

import pytest
import torch

from drpl.data.dataset import in_memory
from drpl.data.images import (
    ComposedImages,
    FileImages,
    TensorImages,
    concat,
    fit,
    replace_rows,
    resize,
    select,
)
from drpl.errors import DataError
from tests.support.datasets import make_pictures, numbered

OWN, FOREIGN = ("a", "b", "c"), ("x", "y")


@pytest.fixture
def files(tmp_path: Path) -> FileImages:
    make_pictures(tmp_path, [f"{k}.png" for k in range(4)])
    return FileImages(sorted(tmp_path.glob("*.png")), 8, 3)


def test_files_stay_files(files: FileImages) -> None:
    some = select(files, torch.tensor([3, 1]))
    both = concat(some, files)
    assert (len(some), len(both), both.shape, both.ahead) == (2, 6, (3, 8, 8), 2)
    index = torch.tensor([5, 0, 2, 1])
    assert torch.equal(both.load(index), files.load(torch.tensor([3, 3, 0, 1])))
    assert both.load(index[:0]).shape == (0, 3, 8, 8)
    again = select(select(both, index), torch.tensor([1, 3]))
    assert isinstance(again, ComposedImages)
    assert torch.equal(again.load(torch.arange(2)), files.load(torch.tensor([3, 1])))
    with pytest.raises(DataError, match="cannot be brought to"):
        concat(files, TensorImages(torch.zeros(2, 7)))


def test_every_operation_on_files_is_that_on_their_pixels(files: FileImages) -> None:
    """Lazy or not, alone or in a batch, the bytes are the same."""
    pixels = TensorImages(files.load(torch.arange(4)))
    grey = numbered(5, FOREIGN).images
    rows, others = torch.tensor([2, 0]), torch.tensor([4, 1])
    for lazy, held in (
        (resize(files, 5), resize(pixels, 5)),
        (fit(files, (1, 6, 4)), fit(pixels, (1, 6, 4))),
        (concat(files, grey), concat(pixels, grey)),
        (replace_rows(files, rows, grey, others), replace_rows(pixels, rows, grey, others)),
        (resize(select(concat(files, grey), rows), 12), resize(select(pixels, rows), 12)),
    ):
        assert (len(lazy), lazy.shape) == (len(held), held.shape)
        index = torch.arange(len(lazy))
        whole = held.load(index)
        assert torch.equal(lazy.load(index.flip(0)), whole.flip(0))
        for k in index.tolist():
            assert torch.equal(lazy.load(torch.tensor([k]))[0], whole[k])
    replaced = replace_rows(pixels, rows, grey, others).load(torch.arange(4))
    assert torch.equal(replaced[rows], fit(grey, (3, 8, 8)).load(others))
    assert torch.equal(replaced[[1, 3]], pixels.load(torch.tensor([1, 3])))
    assert isinstance(resize(pixels, 5), TensorImages)
    assert isinstance(replace_rows(pixels, rows, grey, others), TensorImages)


def test_images_are_fit() -> None:
    colour = in_memory(torch.full((3, 3, 9, 9), 200, dtype=torch.uint8), torch.arange(3), OWN)
    everything = torch.arange(3)
    assert torch.equal(
        fit(colour.images, (1, 8, 8)).load(everything),
        torch.full((3, 1, 8, 8), 200, dtype=torch.uint8),
    )
    grey = numbered(4, FOREIGN)
    assert fit(grey.images, (3, 4, 4)).load(torch.arange(4)).shape == (4, 3, 4, 4)
    vectors = in_memory(torch.zeros(4, 7), torch.arange(4) % 2, FOREIGN)
    with pytest.raises(DataError, match=r"shape \(7,\) and cannot be brought to \(1, 1, 2\)"):
        fit(vectors.images, (1, 1, 2))
