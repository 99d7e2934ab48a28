import numpy as np
import pytest
import torch
from PIL import Image

from drpl.analysis.alignment import SIDE, correlate_aligned, standardise
from drpl.analysis.copies import KINDS, make_copies
from drpl.analysis.encoded import to_grey
from drpl.data.images import FileImages, TensorImages, redecode
from tests.support.pictures import draw_pictures

EVERY = torch.arange(12)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_copies_lie_over_their_originals(kind: str, channels: int) -> None:
    pictures = TensorImages(draw_pictures(12, 48)[:, :channels])
    originals = to_grey(redecode(pictures, SIDE).load(EVERY))
    small, copies = make_copies(pictures, EVERY, kind, (16, SIDE))
    assert small.shape == (12, 3, 16, 16)
    assert float(correlate_aligned(originals, to_grey(copies)).min()) > 0.95
    others = to_grey(copies).roll(1, 0)
    assert float(correlate_aligned(originals, others).max()) < 0.8


def test_a_plain_comparison_would_miss_mirrored_and_cropped_ones() -> None:
    pictures = TensorImages(draw_pictures(12, 48))
    originals = redecode(pictures, SIDE).load(EVERY)
    for kind in ("mirrored", "cropped"):
        (copies,) = make_copies(pictures, EVERY, kind, (SIDE,))
        plain = (standardise(originals) * standardise(copies)).sum(1)
        assert float(plain.min()) < 0.9


def test_files_are_copied_with_their_aspect(tmp_path: object) -> None:
    path = f"{tmp_path}/wide.png"
    Image.fromarray(np.zeros((10, 900), np.uint8)).save(path)
    (made,) = make_copies(FileImages([path], 8, 1), torch.tensor([0]), "resized", (SIDE,))
    assert made.shape == (1, 3, SIDE, SIDE)


def test_empty_pictures_are_like_those_of_their_colour() -> None:
    white, black = (torch.full((1, SIDE, SIDE), value, dtype=torch.uint8) for value in (255, 0))
    assert float(correlate_aligned(white, white)) == pytest.approx(1)
    assert float(correlate_aligned(white, black)) < 0


def test_no_pairs() -> None:
    none = torch.empty(0, SIDE, SIDE, dtype=torch.uint8)
    assert correlate_aligned(none, none).shape == (0,)
