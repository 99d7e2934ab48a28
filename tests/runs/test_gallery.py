"""Which images a run keeps for its galleries."""

import numpy as np
import pytest

from drpl.runs import gallery


def table_of(count: int, classes: int) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(7)
    noise = draws.random(count)
    return {
        "given": draws.integers(0, classes, count),
        "suggested": draws.integers(0, classes, count),
        "confidence": draws.random(count),
        "loss": draws.random(count),
        "p_noisy": noise,
        "flagged": noise > 0.5,
    }


def test_what_is_chosen() -> None:
    table = table_of(500, 4)
    other = np.random.default_rng(8).random(500)
    chosen = gallery.select_images(table, [table["p_noisy"], other], 4)
    agrees = table["given"] == table["suggested"]
    for c, clean, noisy in chosen.classes:
        mine = table["given"] == c
        assert clean is not None
        fits = mine & ~table["flagged"] & agrees
        assert table["loss"][clean] == table["loss"][fits].min()
        worst = np.sort(table["p_noisy"][mine & table["flagged"]])[::-1][: gallery.PER_CLASS]
        assert table["p_noisy"][noisy].tolist() == worst.tolist()
    remembered = table["flagged"] & agrees
    surest = np.sort(table["confidence"][remembered])[::-1][: gallery.ROW]
    assert table["confidence"][chosen.memorised].tolist() == surest.tolist()
    spread = np.abs(table["p_noisy"] - other)
    assert spread[chosen.disputed].tolist() == np.sort(spread)[::-1][: gallery.ROW].tolist()
    surest = np.sort(table["confidence"][~agrees])[::-1][: gallery.ROW]
    assert table["confidence"][chosen.opposed].tolist() == surest.tolist()
    lone = gallery.select_images(table, [table["p_noisy"]], 4).disputed
    nearest = np.sort(np.abs(table["p_noisy"] - 0.5))[: gallery.ROW]
    assert np.abs(table["p_noisy"] - 0.5)[lone].tolist() == nearest.tolist()


def test_there_are_never_too_many() -> None:
    chosen = gallery.select_images(table_of(20_000, 1000), [], 1000)
    assert len(chosen.ids) <= gallery.MOST
    assert chosen.ids == sorted(set(chosen.ids))
    assert len(chosen.classes) == 50  # as many as the paper's part of WebVision has


def test_ties_are_broken_by_order() -> None:
    table = table_of(50, 2)
    table["confidence"][:] = 0.5
    table["suggested"] = 1 - table["given"]
    assert gallery.select_images(table, [], 2).opposed == list(range(gallery.ROW))


@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 8), (3, 200), (4, 8), (2, 8)])
def test_thumbnails(channels: int, side: int) -> None:
    image = np.random.default_rng(1).integers(0, 255, (channels, side, side + 10), dtype=np.uint8)
    small = gallery._shrink(image)
    assert max(small.shape[:2]) <= gallery.SIDE
    assert small.shape[2] == (3 if channels >= 3 else 1)
    if side < gallery.SIDE:
        assert (small[..., 0] == image[0]).all()
