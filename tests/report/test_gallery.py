"""The images of a page: those that lie in the folder of a run, or files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.report.gallery import select_for_run
from drpl.report.page import report
from drpl.runs.folder import Result
from tests.support.run_folders import Recipe, write_run
from tests.support.tiny import tiny_config


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
