"""Which images are worth looking at, and that they lie in the folder of a run."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.report.gallery import select_for_run
from drpl.report.page import report
from drpl.runs import gallery
from drpl.runs.folder import Result
from tests.support.run_folders import Recipe, write_run
from tests.support.tiny import tiny_config


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
    assert len(chosen.classes) == 44


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


def test_a_finished_run_keeps_its_images(tiny: DatasetSplits, tmp_path: Path) -> None:
    made = {"config": tiny_config("cross_entropy"), "noise": "uniform:0.4", "quiet": True}
    run = drpl.train(tiny, method="cross_entropy", out=tmp_path / "run", **made)  # type: ignore[arg-type]
    kept = np.load(tmp_path / "run" / "gallery.npz")
    chosen = select_for_run(run)
    assert chosen
    assert kept["ids"].tolist() == chosen.ids
    pixels = tiny.train.images.load(__import__("torch").tensor(chosen.ids)).numpy()
    assert (kept["pixels"][..., 0] == pixels[:, 0]).all()
    drpl.train(tiny, method="cross_entropy", out=tmp_path / "again", **made)  # type: ignore[arg-type]
    first, second = (tmp_path / name / "gallery.npz" for name in ("run", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_vectors_have_no_gallery(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    x, y = draws.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    x[np.arange(60), y] += 3
    run = drpl.train(
        drpl.arrays(x, y), method="cross_entropy", out=tmp_path / "run", quiet=True,
        config=tiny_config("cross_entropy", 3, {"network": "mlp"}),
    )  # fmt: skip
    assert not (tmp_path / "run" / "gallery.npz").exists()
    text = report([run], tmp_path / "page.html").read_text()
    assert "The images cannot be shown" in text


def test_images_from_files(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Recipe(images=False))
    run = Result.load(folder)
    chosen = select_for_run(run)
    assert chosen
    frame = run.samples.assign(path=[f"{i}.png" for i in range(len(run.samples))])
    frame.to_csv(folder / "samples.csv", index=False)
    gone, *there = chosen.ids
    (tmp_path / "photos").mkdir()
    for i in there:
        Image.new("RGB", (90, 60), (i % 255, 0, 0)).save(tmp_path / "photos" / f"{i}.png")
    text = report([folder], tmp_path / "page.html", images=tmp_path / "photos").read_text()
    assert text.count('src="data:image/jpeg') >= len(there)
    assert "image not to be had" in text
    (tmp_path / "photos" / f"{gone}.png").write_bytes(b"nothing")
    with pytest.raises(drpl.DrplError, match="damaged"):
        report([folder], tmp_path / "page.html", images=tmp_path / "photos")
