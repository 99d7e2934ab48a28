"""Strong augmentation: views that leave little more than what an image shows.

As a weak view, a strong one depends on its row of uniforms alone. All geometry is one resampling
of the image, colours change after it. Vectors have neither: they get noise, and lose numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, pi, sqrt

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from drpl.data.images import Images
from drpl.data.transforms import CropFlip, Normalise

ROTATE, SHEAR, SHIFT = pi / 6, 0.3, 0.6  # at full strength; a shift of 2 is a whole side
ENHANCE = 0.9  # how far brightness, contrast and saturation are from 1 at full strength
JITTER, HUE = 0.4, 0.1  # the same of the colour jitter, and the hue's part of a full turn
LUMA = (0.299, 0.587, 0.114)
ENOUGH = 2000  # vectors that deviations are measured by


@dataclass(frozen=True)
class StrongImages:
    """A weak view, cut out and enlarged, changed by random operations, jittered, partly blanked.

    The fields are those of `config.settings.StrongView`, which explains them.
    """

    weak: CropFlip
    area: float
    operations: int
    level: float
    jitter: float
    grey: float
    cutout: float

    @property
    def num_uniforms(self) -> int:
        """Of crop and flip, the cut, jitter, grey and blank, and three for each operation."""
        return sum(self._parts)

    @property
    def _parts(self) -> list[int]:
        return [self.weak.num_uniforms, 4, 5, 1, 2, *[3] * self.operations]

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """One random view of each image."""
        view, cut, jitter, grey, blank, *drawn = u.to(pixels.device).split(self._parts, 1)
        x = self.weak.cut_out(pixels, view).float() / 255
        kinds, strengths = self._draw_operations(drawn, x)
        if self.area < 1 or self.operations:
            grid = affine_grid(self._place(cut, kinds, strengths), list(x.shape), False)
            x = grid_sample(x, grid, padding_mode="reflection", align_corners=False)
        for kind, strength in zip(kinds, strengths, strict=True):
            for number, change in enumerate(COLOURS, SHAPES):
                rows = kind == number
                x[rows] = change(x[rows], strength[rows].view(-1, 1, 1, 1)).clamp(0, 1)
        if self.jitter:
            rows = jitter[:, 0] < self.jitter
            x[rows] = _jitter(x[rows], jitter[rows, 1:])
        if self.grey:
            x = torch.where((grey < self.grey).view(-1, 1, 1, 1), _grey(x), x)
        if self.cutout:
            mean = torch.tensor(self.weak.normalise.mean, device=x.device).view(-1, 1, 1)
            x = torch.where(_square(blank, x.shape[2:], self.cutout), mean, x)
        return self.weak.normalise.scale(255 * x)

    def _draw_operations(self, drawn: list[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        """Which operations change each image, and how strongly, from -1 to 1. [K, B] each"""
        if not drawn:
            return x.new_empty(0, len(x)).long(), x.new_empty(0, len(x))
        which, strength, applied = torch.stack(drawn).unbind(2)
        kinds = (which * (SHAPES + len(COLOURS))).long()
        kinds = torch.where(applied < CHANCE, kinds, -1)
        return kinds, (2 * strength - 1) * self.level

    def _place(self, u: Tensor, kinds: Tensor, strengths: Tensor) -> Tensor:
        """From places in the view to places in the image, both from -1 to 1. [B, 2, 3]"""
        turn, shear_x, shear_y, across, down = (
            (strengths * (kinds == k)).sum(0) for k in range(SHAPES)
        )
        area = self.area + (1 - self.area) * u[:, 0]
        ratio = torch.exp((2 * u[:, 1] - 1) * log(4 / 3)) if self.area < 1 else u[:, 1] ** 0
        wide, high = ((area * r).sqrt().clamp(max=1) for r in (ratio, 1 / ratio))
        cos, sin = (ROTATE * turn).cos(), (ROTATE * turn).sin()
        x, y = SHEAR * shear_x, SHEAR * shear_y
        left, top = ((2 * u[:, 2 + k] - 1) * (1 - side) for k, side in enumerate((wide, high)))
        rows = (
            (wide * (cos - y * sin), wide * (x * cos - sin), left + SHIFT * across),
            (high * (sin + y * cos), high * (x * sin + cos), top + SHIFT * down),
        )
        return torch.stack([torch.stack(row, 1) for row in rows], 1)


@dataclass(frozen=True)
class StrongVectors:
    """Standardised vectors with Gaussian noise, some of their numbers set to 0, their mean."""

    normalise: Normalise
    deviations: Tensor = field(compare=False)  # [D] of each number that a network sees
    noise: float  # in deviations
    drop: float  # the chance of each number

    @property
    def num_uniforms(self) -> int:
        """One for the noise, one for what is dropped: all others follow from these."""
        return 2

    def __call__(self, pixels: Tensor, u: Tensor) -> Tensor:
        """One random view of each vector."""
        x, u = self.normalise(pixels, u), u.to(pixels.device)
        drawn, chance = (_spread(u[:, k], x.shape[1]) for k in (0, 1))
        normal = sqrt(2) * torch.erfinv(2 * drawn - 1)
        x = x + self.noise * self.deviations.to(x.device) * normal
        return x * (chance >= self.drop)


def measure_deviations(images: Images, normalise: Normalise) -> Tensor:
    """How much each number of the vectors varies, as a network sees them. [D]"""
    index = torch.linspace(0, len(images) - 1, min(len(images), ENOUGH)).long()
    return normalise(images.load(index), torch.empty(0)).std(0, correction=0).cpu()


def _spread(u: Tensor, count: int) -> Tensor:
    """Many uniform numbers, none of them 0 or 1, that follow from one. [B] -> [B, count]

    A table of a number for each dimension of each sample would be larger than the data.
    """
    place = 0x9E3779B1 * torch.arange(count, device=u.device)
    mixed = _hash(_hash((u.double() * 2**24).long())[:, None] + place)
    return ((mixed >> 9) + 0.5) / 2**23


def _hash(numbers: Tensor) -> Tensor:
    """32 bits that look random, each depending on every bit of a number."""
    for _ in range(2):
        numbers = (((numbers >> 16) ^ numbers) * 0x45D9F3B) & 0xFFFFFFFF
    return (numbers >> 16) ^ numbers


def _grey(x: Tensor) -> Tensor:
    """Without colour; an image of one channel, or of more than three, stays as it is."""
    if x.shape[1] != len(LUMA):
        return x
    luma = torch.tensor(LUMA, device=x.device).view(-1, 1, 1)
    return (luma * x).sum(1, keepdim=True).expand_as(x)


def _brighten(x: Tensor, factor: Tensor) -> Tensor:
    return x * factor


def _contrast(x: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(_grey(x).mean((1, 2, 3), keepdim=True).expand_as(x), x, factor)


def _saturate(x: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(_grey(x), x, factor)


def _posterise(x: Tensor, strength: Tensor) -> Tensor:
    """Keep 8 to 4 bits of each number."""
    step = 2 ** (4 * strength.abs()).round()
    return (255 * x / step).floor() * step / 255


def _solarise(x: Tensor, strength: Tensor) -> Tensor:
    """Turn the brightest into their negative."""
    return torch.where(x > 1 - strength.abs(), 1 - x, x)


def _stretch(x: Tensor, strength: Tensor) -> Tensor:
    """Let every channel go from black to white."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return (x - low) / (high - low).clamp(min=1 / 255)


def _turn_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Turn colours about the axis of greys, by this part of a full turn. turn: [B, 1, 1]"""
    if x.shape[1] != len(LUMA):
        return x
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=x.device) / sqrt(3)
    mean, angle = torch.full_like(cross, 1 / 3), 2 * pi * turn
    about = angle.cos() * (torch.eye(3, device=x.device) - mean) + mean + angle.sin() * cross
    return torch.einsum("bcd,bdhw->bchw", about, x)


def _jitter(x: Tensor, u: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue, a little of each."""
    factors = (1 + JITTER * (2 * u[:, :3] - 1)).view(-1, 3, 1, 1, 1)
    for k, change in enumerate((_brighten, _contrast, _saturate)):
        x = change(x, factors[:, k]).clamp(0, 1)
    return _turn_hue(x, HUE * (2 * u[:, 3:, None] - 1)).clamp(0, 1)


def _square(u: Tensor, sides: tuple[int, ...], share: float) -> Tensor:
    """Which pixels are in a square around a random place. [B, 1, H, W]"""
    near = [
        (torch.arange(side, device=u.device) + 0.5 - u[:, k, None] * side).abs() < share * side / 2
        for k, side in enumerate(sides)
    ]
    return (near[0][:, :, None] & near[1][:, None, :])[:, None]


CHANCE = 0.5  # of each drawn operation to be applied
SHAPES = 5  # operations that move pixels: rotate, shear and shift, the latter along either side
COLOURS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda x, strength: _brighten(x, 1 + ENHANCE * strength),
    lambda x, strength: _contrast(x, 1 + ENHANCE * strength),
    lambda x, strength: _saturate(x, 1 + ENHANCE * strength),
    _posterise,
    _solarise,
    _stretch,
)
