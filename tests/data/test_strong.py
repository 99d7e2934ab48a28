"""Strong views: functions of uniforms, on whole batches."""

from typing import Any

import pytest
import torch

from drpl.data import strong
from drpl.data.images import TensorImages
from drpl.data.strong import StrongImages, StrongVectors, measure_deviations
from drpl.data.transforms import CropFlip, Normalise
from drpl.randomness import rng

NOTHING = {"area": 1.0, "operations": 0, "level": 0.0, "jitter": 0.0, "grey": 0.0, "cutout": 0.0}
ALL = {"area": 0.3, "operations": 3, "level": 1.0, "jitter": 0.8, "grey": 0.2, "cutout": 0.25}


def make(channels: int = 3, **settings: Any) -> StrongImages:
    plain = Normalise((0.0,) * channels, (1.0,) * channels)
    return StrongImages(CropFlip(0, False, plain), **{**NOTHING, **settings})


def draw(view: StrongImages, count: int) -> torch.Tensor:
    return torch.rand(count, view.num_uniforms, generator=rng("u"))


def make_pixels(count: int, channels: int = 3) -> torch.Tensor:
    return torch.randint(0, 256, (count, channels, 8, 8), generator=rng("pixels")).to(torch.uint8)


def test_without_anything_it_is_the_weak_view() -> None:
    pixels, view = make_pixels(4), make()
    u = draw(view, 4)
    torch.testing.assert_close(view(pixels, u), view.weak(pixels, u[:, :3]))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_view_depends_on_its_row_alone(channels: int) -> None:
    pixels, view = make_pixels(64, channels), make(channels, **ALL)
    u = draw(view, 64)
    whole = view(pixels, u)
    parts = torch.cat([view(pixels[k : k + 8], u[k : k + 8]) for k in range(0, 64, 8)])
    torch.testing.assert_close(whole, parts)
    assert whole.shape == pixels.shape
    assert float(whole.amin()) >= 0
    assert float(whole.amax()) <= 1 + 1e-6
    assert torch.isfinite(whole).all()
    assert whole.is_contiguous(memory_format=torch.channels_last)
    assert not torch.allclose(whole, pixels / 255, atol=0.1)


def test_a_cut_is_enlarged() -> None:
    """A quarter of an image of four colours, cut at a corner, is of one colour."""
    quarters = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    quarters[..., :4, :4] = 100
    view = make(1, area=0.25)
    u = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, *[0.9] * 8]])
    inner = view(quarters, u)[0, 0, :7, :7] * 255
    torch.testing.assert_close(inner, torch.full((7, 7), 100.0))


@pytest.mark.parametrize(
    ("kind", "where"), [(3, "columns"), (4, "rows")]
)  # of the operations that move pixels
def test_a_shift_moves_the_image(kind: int, where: str) -> None:
    pixels, view = make_pixels(1, 1), make(1, operations=1, level=1.0)
    u = torch.zeros(1, view.num_uniforms)
    u[0, -3:] = torch.tensor([(kind + 0.5) / (strong.SHAPES + len(strong.COLOURS)), 0.9999999, 0])
    by = strong.SHIFT * 8 / 2  # 2.4 pixels
    moved, still = view(pixels, u)[0, 0], pixels[0, 0] / 255
    if where == "rows":
        moved, still = moved.T, still.T
    whole, rest = int(by), by - int(by)
    wanted = (1 - rest) * still[:, whole:-1] + rest * still[:, whole + 1 :]
    torch.testing.assert_close(moved[:, : 8 - whole - 1], wanted, atol=1e-4, rtol=0)
    assert float(moved[:, -2:].abs().amin()) > 0  # mirrored pixels come in, nothing black


def test_operations_keep_the_size_of_their_range() -> None:
    x = torch.linspace(0, 1, 48).view(1, 3, 4, 4)
    full, none = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)
    for k in (0, 1, 2, 4):
        torch.testing.assert_close(strong.COLOURS[k](x, none), x)
        assert not torch.allclose(strong.COLOURS[k](x, full), x)
    torch.testing.assert_close(strong.COLOURS[4](x, full)[0, 0, 0, 1], 1 - x[0, 0, 0, 1])
    assert len(strong.COLOURS[3](x, full).unique()) <= 16  # four bits
    stretched = strong.COLOURS[5](x, full)
    assert stretched.amin((2, 3)).tolist() == [[0, 0, 0]]
    assert stretched.amax((2, 3))[0].tolist() == pytest.approx([1, 1, 1])


def test_hue_turns_colours_and_leaves_greys() -> None:
    red = torch.tensor([1.0, 0, 0]).view(1, 3, 1, 1)
    third = torch.full((1, 1, 1), 1 / 3)
    torch.testing.assert_close(strong._turn_hue(red, third)[0, :, 0, 0], torch.tensor([0.0, 1, 0]))
    grey = torch.full((1, 3, 2, 2), 0.3)
    torch.testing.assert_close(strong._turn_hue(grey, 0.1 * third), grey)


def test_grey_and_blank_come_as_often_as_they_should() -> None:
    pixels = make_pixels(1).expand(2000, 3, 8, 8)
    view = make(grey=0.2)
    x = view(pixels, draw(view, 2000))
    share = (x[:, 0] - x[:, 1]).abs().amax((1, 2)).eq(0).double().mean()
    assert float(share) == pytest.approx(0.2, abs=0.03)
    view = make(cutout=0.5)
    blank = view(torch.full_like(pixels, 255), draw(view, 2000)).eq(0)
    assert blank.sum((1, 2, 3)).amax() == 3 * 16  # a square of half the side, if it is inside
    assert float(blank[:, 0, 4, 4].double().mean()) == pytest.approx(0.25, abs=0.05)


def test_vectors_get_noise_and_lose_numbers() -> None:
    plain = Normalise((1.0,) * 400, (2.0,) * 400)
    x, u = torch.full((50, 400), 3.0), torch.rand(50, 2, generator=rng("u"))
    deviations = torch.ones(400)
    deviations[:200] = 3
    noisy = StrongVectors(plain, deviations, 0.5, 0.0)(x, u)
    assert float(noisy.mean()) == pytest.approx(1, abs=0.05)
    assert float(noisy[:, :200].std()) == pytest.approx(1.5, abs=0.03)
    assert float(noisy[:, 200:].std()) == pytest.approx(0.5, abs=0.01)
    assert abs(float(torch.corrcoef(noisy[:, :100]).triu(1).mean())) < 0.02
    assert abs(float(torch.corrcoef(noisy[:, :40].T).triu(1).abs().max())) < 0.7
    dropped = StrongVectors(plain, deviations, 0.0, 0.2)(x, u)
    assert set(dropped.unique().tolist()) == {0.0, 1.0}
    assert float((dropped == 0).double().mean()) == pytest.approx(0.2, abs=0.01)
    assert torch.equal(dropped[:7], StrongVectors(plain, deviations, 0.0, 0.2)(x[:7], u[:7]))


def test_deviations_are_those_that_a_network_sees() -> None:
    x = torch.randn(3000, 4, generator=rng("x")) * torch.tensor([1.0, 2.0, 4.0, 0.5])
    basis = torch.eye(4)[:, :2] * 3
    found = measure_deviations(TensorImages(x), Normalise((0.0,) * 4, (2.0,) * 4, basis=basis))
    assert found.tolist() == pytest.approx([1.5, 3.0], rel=0.05)
