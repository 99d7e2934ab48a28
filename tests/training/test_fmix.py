"""Pairs of images joined along smooth shapes."""

import torch

from drpl.randomness import rng
from drpl.training.fmix import draw_masked_mix


def test_a_mask_is_one_shape_for_the_whole_batch() -> None:
    x = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 3, 16, 16)
    mix = draw_masked_mix(x, 1.0, 3.0, rng("fmix"))
    assert mix.mask.shape == (1, 16, 16)
    blended = mix.blend(x)
    own = mix.mask.bool()[0]
    for k in range(4):
        assert set(blended[k][:, own].unique().tolist()) == {float(k)}
        assert set(blended[k][:, ~own].unique().tolist()) == {float(mix.partner[k])}
    targets = mix.blend_targets(torch.eye(4))
    assert torch.allclose(targets.sum(1), torch.ones(4))
    share = float(mix.mask.mean())
    moved = (mix.partner != torch.arange(4)).nonzero().flatten()
    assert torch.allclose(targets[moved, moved], torch.full((len(moved),), share))


def test_shapes_are_smooth_and_of_the_share_that_was_drawn() -> None:
    x, draws = torch.zeros(2, 1, 32, 32), rng("smooth")

    def edges(decay: float) -> float:
        masks = [draw_masked_mix(x, 1.0, decay, draws).mask[0] for _ in range(30)]
        return sum(float(mask.diff(dim=1).abs().mean()) for mask in masks)

    assert edges(3.0) < 0.3 * edges(0.0)
    shares = [float(draw_masked_mix(x, 1.0, 3.0, draws).mask.mean()) for _ in range(200)]
    assert 0.4 < sum(shares) / 200 < 0.6
    assert min(shares) < 0.05
    assert max(shares) > 0.95


def test_vectors_lose_a_share_of_their_numbers() -> None:
    x = torch.randn(5, 40, generator=rng("x"))
    mix = draw_masked_mix(x, 1.0, 3.0, rng("vectors"))
    assert mix.mask.shape == (40,)
    blended = mix.blend(x)
    assert torch.equal(blended[:, mix.mask.bool()], x[:, mix.mask.bool()])
    assert torch.equal(blended[:, ~mix.mask.bool()], x[mix.partner][:, ~mix.mask.bool()])
